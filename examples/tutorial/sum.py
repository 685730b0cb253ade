"""Step 2: the switch adds, and answers."""

from dataclasses import dataclass
from pathlib import Path

from foundation.designs.interface import Arm, Design, Forwarding


@dataclass(frozen=True, slots=True)
class Adds:
    """Settings of an arm whose switch adds."""

    aggregates: bool = True
    proxies: bool = False


OFF = Arm("sum-off", 61, __name__, Forwarding(), "#7f7f7f", about="in which the switch forwards")
ON = Arm(
    "sum", 51, __name__, Adds(), "#d0662c",
    about="in which the switch adds", reference="sum-off", is_lead=True,
)  # fmt: skip
DESIGN = Design(
    name="sum",
    summary="the switch has all parameters, and answers",
    promise="nothing: what comes twice is added twice",
    program=Path(__file__).with_name("sum.p4"),
    arms=(OFF, ON),
    module=__name__,
    agents="hotline_agents.none:AGENTS",
    control="controller.forwarding:CONTROL",
    switch_state=f"{__package__}.switch_state:SWITCH_STATE_OPS",
)
