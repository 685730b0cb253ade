"""When a block was disturbed: by whom a CPU was taken, and what of a block is out of its arm's usual.

The hypervisor's and others' share of the CPU are bounded as such. What the experiment does to itself, too, is
bounded by what is usual: by the median of the arm's blocks at that load so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from pydantic import BaseModel, ConfigDict

from analysis.metrics import Kind
from analysis.record import Block

STEAL = 0.02
"""Share of all CPU time of a block that the hypervisor may take."""
OTHERS = 0.05
"""Share of it that processes which are not the run's may take; the kernel's threads are the run's."""
UNUSUAL = 3.0
"""Times the median that is out of the usual."""
LEAST_EARLIER = 3
"""Blocks that tell what is usual."""
WAITING = 0.1
"""Share of a block for which waiting for a CPU is usual in any case."""
RETRANSMISSIONS = 10
"""As many are usual in any case."""
TOO_MANY = 0.2
"""Share of disturbed blocks above which the metrics that the disturbance touches are invalid."""
TOUCHING: Mapping[Kind, frozenset[str] | None] = {
    # A server or switch that is started again has counted something before that is missing.
    "count": frozenset({"restart", "retransmissions"}),
    "cpu": frozenset({"restart"}),
    "time": None,
    "learning": frozenset(),
}
"""Kind of metric -> what distorts it; None for everything. Who has to wait for a CPU sends as many packets,
and its CPU time is what it had and not what it waited for."""


def reasons(block: Block, earlier: Iterable[Block], cpus: int) -> list[str]:
    """Why the block is to be run again, if it is; `earlier` are blocks of its arm at its load."""
    all_cpu = cpus * block.duration_ms
    found = []
    if block.steal_ms > STEAL * all_cpu:
        found.append("steal")
    if block.others_cpu_ms > OTHERS * all_cpu:
        found.append("others' CPU")
    if block.restarts:
        found.append("restart")
    usual = list(earlier)
    if len(usual) >= LEAST_EARLIER:
        found += [name for name, of in _SYMPTOMS.items() if _is_unusual(block, usual, of)]
    return found


class Disturbed(BaseModel):
    """How many of the blocks that a difference rests on stayed disturbed, by what touches its metric."""

    model_config = ConfigDict(frozen=True)

    blocks: int
    """All of them, of the arm and of its baseline."""
    disturbed: int
    reasons: dict[str, int]
    """Reason -> disturbed blocks, the most frequent first."""


def invalidated(blocks: Sequence[Block]) -> dict[Kind, Disturbed]:
    """Return the kinds of metrics that too many of these blocks are disturbed for, in their last attempts."""
    found: dict[Kind, Disturbed] = {}
    for kind, touching in TOUCHING.items():
        reasons = [
            [reason for reason in block.disturbed if touching is None or reason in touching]
            for block in blocks
        ]
        disturbed = sum(map(bool, reasons))
        if disturbed > TOO_MANY * len(blocks):
            of = Counter(reason for each in reasons for reason in each)
            found[kind] = Disturbed(blocks=len(blocks), disturbed=disturbed, reasons=dict(of.most_common()))
    return found


Sizes = dict[str, tuple[float, float]]
"""Of some symptom: name -> its size, and what is usual in any case."""


def _is_unusual(block: Block, earlier: list[Block], of: Callable[[Block], Sizes]) -> bool:
    before = [of(each) for each in earlier]
    return any(
        size > floor and size > UNUSUAL * median(sizes.get(name, (0.0, 0.0))[0] for sizes in before)
        for name, (size, floor) in of(block).items()
    )


_SYMPTOMS: dict[str, Callable[[Block], Sizes]] = {
    "pressure": lambda block: {"": (_share(block, block.pressure_ms), WAITING)},
    "run queue": lambda block: {
        name: (_share(block, ms), WAITING) for name, ms in block.run_queue_ms.items()
    },
    "retransmissions": lambda block: {"": (block.retransmissions, RETRANSMISSIONS)},
    "lateness": lambda block: {"": (block.behind_ns, block.period_ns)},
}


def _share(block: Block, of_ms: float) -> float:
    return of_ms / block.duration_ms if block.duration_ms else 0.0
