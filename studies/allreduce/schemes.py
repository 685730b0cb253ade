"""The all-reduce schemes that are compared: a design in an arm, with a number of servers."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.dense.subject import PSDENSE, RING, Subject
from simulator.switchml.subject import CHECKED, PUBLISHED
from studies.allreduce import AllReduceError


@dataclass(frozen=True, slots=True)
class Scheme:
    name: str
    subject: Subject
    workers_per_server: int | None
    """Workers per server; None for designs whose servers are idle, which have one."""
    dash: int = 0

    def servers(self, workers: int) -> int:
        return 1 if self.workers_per_server is None else -(-workers // self.workers_per_server)

    @property
    def is_checked(self) -> bool:
        return self.subject is CHECKED

    @property
    def colour(self) -> str:
        return self.subject.arm.colour


SCHEMES = (
    Scheme("switchml", PUBLISHED, None),
    Scheme("switchml-checked", CHECKED, None, dash=1),
    Scheme("psdense", PSDENSE, 1),
    Scheme("psdense, 4 workers a server", PSDENSE, 4, dash=1),
    Scheme("ring", RING, None),
)
_BY_NAME = {each.name: each for each in SCHEMES}


def scheme_of(name: str) -> Scheme:
    """Return the scheme of this name; raises `AllReduceError`."""
    if name not in _BY_NAME:
        raise AllReduceError(f"{name!r} is no scheme; expected one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
