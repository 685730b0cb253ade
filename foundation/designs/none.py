"""Servers only: the switch forwards. What every other design is to be better than."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foundation.designs.interface import Arm, Design

NAME = "none"


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to be set."""

    @property
    def aggregates(self) -> bool:
        """The switch adds nothing up."""
        return False

    @property
    def proxies(self) -> bool:
        """Each worker has a connection of its own."""
        return False


NONE = Arm(
    "none", 7, NAME, Nothing(), "#7f7f7f",
    about="with servers only, and a connection for each worker",
)  # fmt: skip
NONE_AGAIN = Arm(
    "none-again", 8, NAME, Nothing(), "#b4b4b4",
    about="that is none once more",
    note="The differences of the arm none-again are noise, and show how much of it there is.",
    baseline="none", is_repetition=True,
)  # fmt: skip

DESIGN = Design(
    name=NAME,
    summary="the switch forwards, and servers do the rest",
    promise="no acknowledged update, as long as no server dies",
    program=Path(__file__).parents[2] / "p4src" / "compiled" / "none.json",
    arms=(NONE, NONE_AGAIN),
    module=__name__,
    agents_module="hosts.none.agents",
    control_module="controller.none.control",
)
