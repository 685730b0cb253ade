"""A design outside the repository, with a wire format of its own: servers return numbers, and send some."""

from pathlib import Path

from foundation.designs.interface import Arm, Design, Forwarding

ARM = Arm("echo", 40, __name__, Forwarding(), "#2c9a57", about="in which nothing is learnt")
DESIGN = Design(
    name="echo",
    summary="the switch forwards, and servers send back what they get",
    promise="nothing",
    program=Path(__file__).parents[3] / "p4src" / "compiled" / "none.json",
    arms=(ARM,),
    module=__name__,
    agents=f"{__name__}.agents:AGENTS",
    control="controller.forwarding:CONTROL",
)
