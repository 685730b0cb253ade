"""The all-reduce schemes that are compared, each a design with an arm's settings and a number of servers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hotline_allreduce.atp.model import subject as atp
from hotline_allreduce.exact import subject as exact
from hotline_allreduce.simulation.subject import PSDENSE, RING, Subject
from hotline_allreduce.study import AllReduceError
from hotline_allreduce.switchml.model import subject as switchml


class SwitchMemory(Enum):
    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Scheme:
    name: str
    subject: Subject
    workers_per_server: int | None
    """Workers per server; None for designs whose servers are idle, which have one server."""
    dash: int = 0  # index in `analysis.figures.model.DASHES`
    memory: SwitchMemory = SwitchMemory.NONE

    def server_count(self, workers: int) -> int:
        if self.workers_per_server is None:
            return 1
        return -(-workers // self.workers_per_server)  # rounded up

    @property
    def is_checked(self) -> bool:
        return self.subject.arm.reference is not None

    @property
    def colour(self) -> str:
        return self.subject.arm.colour


SCHEMES = (
    Scheme("switchml", switchml.PUBLISHED, workers_per_server=None, memory=SwitchMemory.REQUIRED),
    Scheme("switchml-checked", switchml.CHECKED, workers_per_server=None, dash=1),
    Scheme("atp", atp.PUBLISHED, workers_per_server=None, memory=SwitchMemory.OPTIONAL),
    Scheme("psdense", PSDENSE, workers_per_server=1),
    Scheme("psdense, 4 workers a server", PSDENSE, workers_per_server=4, dash=1),
    Scheme("ring", RING, workers_per_server=None),
)
WITH_PUBLISHED_TIMERS = (
    Scheme(
        "switchml, 1 ms", switchml.with_published_timers(switchml.PUBLISHED), workers_per_server=None, dash=2
    ),
    Scheme("atp, 0.2 ms", atp.with_published_timers(atp.PUBLISHED), workers_per_server=None, dash=2),
)
"""Schemes with the time-outs of their published code; results differ only if frames are lost."""
LARGE_PACKETS = Scheme("switchml, 256 values", switchml.LARGE_PACKETS, workers_per_server=None)
EXACT = Scheme("exact", exact.SUBJECT, workers_per_server=None)
_BY_NAME = {each.name: each for each in (*SCHEMES, *WITH_PUBLISHED_TIMERS, LARGE_PACKETS, EXACT)}


def scheme_of(name: str) -> Scheme:
    if name not in _BY_NAME:
        raise AllReduceError(f"{name!r} is no scheme; expected one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
