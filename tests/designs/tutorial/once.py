"""Step 3: the switch adds what is new, and answers."""

from dataclasses import dataclass
from pathlib import Path

from foundation.designs.interface import Arm, Design


@dataclass(frozen=True)
class Adds:
    """What the arm has the switch do."""

    aggregates: bool = True
    proxies: bool = False


DESIGN = Design(
    name="once",
    summary="the switch has all parameters, and answers",
    promise="nothing: what comes twice is added twice",
    program=Path(__file__).parent / "compiled" / "once.json",
    arms=(Arm("once", 52, __name__, Adds(), "#d0662c", about="in which the switch adds"),),
    module=__name__,
    agents_module="hosts.none.agents",
    control_module="controller.none.control",
    contents_module=f"{__package__}.contents",
)
