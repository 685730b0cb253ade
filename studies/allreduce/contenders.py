"""Who adds up dense vectors: a design in an arm, and how many servers it has."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.dense.subject import PSDENSE, RING, Subject
from simulator.switchml.subject import CHECKED, PUBLISHED
from studies.allreduce.errors import ZooError


@dataclass(frozen=True, slots=True)
class Contender:
    """A row of each table, and a line of each figure."""

    name: str
    subject: Subject
    workers_a_server: int | None
    """None where servers do nothing: there is one."""
    dash: int = 0
    """Of its line."""

    def servers(self, workers: int) -> int:
        """For so many workers."""
        return 1 if self.workers_a_server is None else -(-workers // self.workers_a_server)

    @property
    def is_checked(self) -> bool:
        """Whether it differs from another in a check of ours alone."""
        return self.subject is CHECKED

    @property
    def colour(self) -> str:
        """Of its arm."""
        return self.subject.arm.colour


CONTENDERS = (
    Contender("switchml", PUBLISHED, None),
    Contender("switchml-checked", CHECKED, None, dash=1),
    Contender("psdense", PSDENSE, 1),
    Contender("psdense, 4 workers a server", PSDENSE, 4, dash=1),
    Contender("ring", RING, None),
)
_BY_NAME = {each.name: each for each in CONTENDERS}


def contender(name: str) -> Contender:
    """By its name; raises `ZooError`."""
    if name not in _BY_NAME:
        raise ZooError(f"contender {name!r} is none of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
