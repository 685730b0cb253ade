"""Design `none`: the switch only forwards. It is the baseline of every other design."""

from __future__ import annotations

from foundation.checkout import ROOT
from foundation.designs.interface import Arm, Design, Forwarding

NAME = "none"


NONE = Arm(
    "none", job=7, design=NAME, settings=Forwarding(), colour="#7f7f7f",
    about="with servers only, and a connection for each worker",
)  # fmt: skip
NONE_REPEAT = Arm(
    "none-repeat", job=8, design=NAME, settings=Forwarding(), colour="#b4b4b4",
    about="that repeats none (A/A)",
    note="The differences of the arm none-repeat are noise, and show how much of it there is.",
    reference="none", is_repetition=True,
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="the switch forwards, and servers do the rest",
    promise="no acknowledged update is lost as long as no server dies",
    program=ROOT / "p4src" / "compiled" / "none.json",
    arms=(NONE, NONE_REPEAT),
    module=__name__,
    control="controller.forwarding:CONTROL",
    has_rows=True,
    optimises=True,
)
