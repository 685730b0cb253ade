"""Step 1: the switch counts updates, and forwards."""

from pathlib import Path

from foundation.designs.interface import Arm, Design, Forwarding

DESIGN = Design(
    name="count",
    summary="the switch counts updates, and servers do the rest",
    promise="no acknowledged update is lost as long as no server dies",
    program=Path(__file__).with_name("count.p4"),
    arms=(Arm("count", 50, __name__, Forwarding(), "#2c9a57", about="in which the switch counts"),),
    module=__name__,
    agents="hotline_agents.none:AGENTS",
    control="controller.forwarding:CONTROL",
)
