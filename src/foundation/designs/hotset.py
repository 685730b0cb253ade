"""Design `hotset`: the switch holds the most updated parameters, and is a proxy for connections."""

from __future__ import annotations

from dataclasses import dataclass

from foundation.checkout import ROOT
from foundation.designs.interface import Arm, Design

NAME = "hotset"


@dataclass(frozen=True, slots=True)
class HotSet:
    aggregates: bool = False
    proxies: bool = False


PROFILE = Arm(
    "profile", job=1, design=NAME, settings=HotSet(aggregates=True), colour="#000000",
    about="whose training fills the update log, and goes on while the hot set is loaded",
    is_measured=False,
)  # fmt: skip
BASELINE = Arm(
    "baseline", job=2, design=NAME, settings=HotSet(), colour="#7f7f7f",
    about="with all parameters at the servers, and a connection for each worker",
)  # fmt: skip
REPEAT = Arm(
    "repeat", job=6, design=NAME, settings=HotSet(), colour="#b4b4b4",
    about="that repeats the baseline (A/A)",
    note="The differences of the arm repeat are noise, and show how much of it there is.",
    reference="baseline", is_repetition=True,
)  # fmt: skip
PROXY = Arm(
    "proxy", job=3, design=NAME, settings=HotSet(proxies=True), colour="#3b7dd8",
    about="in which the switch is the workers' one connection to each server",
    note="The arm proxy should show no effect with few workers: its effect (Pan et al. Fig. 9) needs "
    "hundreds of connections.",
    reference="baseline",
    sentence_prefix="with the proxy alone, ",
)  # fmt: skip
OFFLOAD = Arm(
    "offload", job=4, design=NAME, settings=HotSet(aggregates=True), colour="#e07b1a",
    about="in which the switch holds the hottest parameters",
    reference="baseline",
    is_lead=True,
)  # fmt: skip
OFFLOAD_PROXY = Arm(
    "offload-proxy", job=5, design=NAME, settings=HotSet(aggregates=True, proxies=True), colour="#2c9a57",
    about="that is offload and proxy together",
    reference="baseline",
)  # fmt: skip

ARMS = (PROFILE, BASELINE, REPEAT, PROXY, OFFLOAD, OFFLOAD_PROXY)

DESIGN = Design(
    name=NAME,
    summary="the switch aggregates the hottest parameters, and is a proxy for connections",
    promise="no acknowledged update is lost whatever dies but a worker, with durable servers and replay logs",
    program=ROOT / "p4src" / "compiled" / "hotset.json",
    arms=ARMS,
    module=__name__,
    control="controller.hotset.initial_rows:CONTROL",
    has_rows=True,
    has_networks=True,
    preparation="experiment.hotset_arms:prepare",
    has_services=True,
    is_durable=True,
)


def settings_of(arm: Arm) -> HotSet:
    return arm.settings_as(HotSet, NAME)
