"""Dense vectors at parameter servers: they add up the vectors of all workers, and the switch forwards.

It runs the program of `none`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foundation.designs.interface import Arm, Design

NAME = "psdense"


@dataclass(frozen=True, slots=True)
class Servers:
    """There is nothing to be set."""

    @property
    def aggregates(self) -> bool:
        """The switch adds nothing up."""
        return False

    @property
    def proxies(self) -> bool:
        """Each worker has a connection of its own."""
        return False


PSDENSE = Arm(
    "psdense", 11, NAME, Servers(), "#3b7dd8",
    about="in which servers add up dense vectors",
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="servers add up dense vectors, chunk by chunk, and workers wait for each other",
    promise="equal sums, or a stop that is reported",
    program=Path(__file__).parents[2] / "p4src" / "compiled" / "none.json",
    arms=(PSDENSE,),
    module=__name__,
    agents_module="hosts.psdense.agents",
    control_module="controller.psdense.control",
)
