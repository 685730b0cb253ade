"""Design `collect`: servers own all parameters; the switch has copies of hot ones, and sums of gradients."""

from __future__ import annotations

from dataclasses import replace

from foundation.checkout import ROOT
from foundation.designs.hotset import NAME as HOTSET
from foundation.designs.hotset import PROFILE as HOTSET_PROFILE
from foundation.designs.hotset import HotSet
from foundation.designs.interface import Arm, Design

NAME = "collect"

PROFILE = replace(HOTSET_PROFILE, name="collect-profile", job=15, design=NAME)
BASELINE = Arm(
    "collect-baseline", job=16, design=NAME, settings=HotSet(), colour="#7f7f7f",
    about="with all gradients at the servers, which apply them at once",
)  # fmt: skip
REPEAT = Arm(
    "collect-repeat", job=17, design=NAME, settings=HotSet(), colour="#b4b4b4",
    about="that repeats collect-baseline (A/A)",
    note="The differences of the arm collect-repeat are noise, and show how much of it there is.",
    reference="collect-baseline", is_repetition=True,
)  # fmt: skip
COLLECT = Arm(
    "collect", job=18, design=NAME, settings=HotSet(aggregates=True), colour="#e07b1a",
    about="in which the switch adds up the gradients of the hottest parameters, and servers collect the sums",
    reference="collect-baseline",
    is_lead=True,
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="the switch adds up gradients of the hottest parameters, which servers collect and optimise",
    promise="no acknowledged update is lost whatever dies but a worker, with durable servers and replay logs",
    program=ROOT / "p4src" / "compiled" / "collect.json",
    arms=(PROFILE, BASELINE, REPEAT, COLLECT),
    module=__name__,
    control="controller.collect:CONTROL",
    has_rows=True,
    has_networks=True,
    preparation="experiment.hotset_arms:prepare",
    has_services=True,
    controlled_as=HOTSET,
    is_durable=True,
    optimises=True,
)
