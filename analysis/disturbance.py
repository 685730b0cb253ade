"""Detect disturbed blocks by CPU time of other processes, and by values unusual for the arm.

The CPU shares of the hypervisor and of other processes have absolute bounds. Symptoms that the experiment can
cause itself are bounded relative to the median of the arm's earlier blocks at the same load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from pydantic import BaseModel, ConfigDict

from analysis.metrics import Kind
from analysis.record import Block, MachineUse

MAX_STEAL_SHARE = 0.02
"""Maximum share of a block's CPU time for the hypervisor."""
MAX_OTHERS_CPU_SHARE = 0.05
"""Maximum share of a block's CPU time for other processes; the kernel's threads count as the run's."""
UNUSUAL_FACTOR = 3.0  # times the median of earlier blocks
MIN_EARLIER_BLOCKS = 3  # to compute that median
NORMAL_WAITING = 0.1
"""Share of a block up to which waiting for a CPU is always normal."""
NORMAL_RETRANSMISSIONS = 10
"""Number of retransmissions up to which they are always normal."""
MAX_DISTURBED_SHARE = 0.2
"""Share of disturbed blocks above which the metrics that the disturbance affects are invalid."""
AFFECTED_BY: Mapping[Kind, frozenset[str] | None] = {
    # A restarted server or switch has lost its counts.
    "count": frozenset({"restart", "retransmissions"}),
    "cpu": frozenset({"restart"}),
    "time": None,
    "learning": frozenset(),
}
"""Kind of metric -> disturbances that distort it; None for all. Waiting for a CPU changes
neither the packets that a process sends nor its CPU time."""


MACHINE_DISTURBANCES = frozenset({"steal", "others' CPU", "pressure", "run queue"})
"""Disturbances by other programs of the machine, or by other machines on the same hardware."""


def reasons_to_repeat(block: Block, earlier: Iterable[Block], cpus: int) -> list[str]:
    """Return the reasons to repeat a block, if any; `earlier` are blocks of its arm at its load."""
    # Of several machines each one is looked at, since a disturbed one delays all.
    uses = list(block.machines.values()) or [
        MachineUse(
            cpus=cpus,
            steal_ms=block.steal_ms,
            others_cpu_ms=block.others_cpu_ms,
            pressure_ms=block.pressure_ms,
        )
    ]
    found_reasons = []
    if any(use.steal_ms > MAX_STEAL_SHARE * use.cpus * block.duration_ms for use in uses):
        found_reasons.append("steal")
    if any(use.others_cpu_ms > MAX_OTHERS_CPU_SHARE * use.cpus * block.duration_ms for use in uses):
        found_reasons.append("others' CPU")
    if block.restarts:
        found_reasons.append("restart")
    earlier_blocks = list(earlier)
    if len(earlier_blocks) >= MIN_EARLIER_BLOCKS:
        found_reasons += [
            name for name, sizes_of in _SYMPTOMS.items() if _is_unusual(block, earlier_blocks, sizes_of)
        ]
    return found_reasons


class DisturbedBlocks(BaseModel):
    model_config = ConfigDict(frozen=True)

    blocks: int
    disturbed: int  # number of disturbed blocks among these
    reasons: dict[str, int]  # reason -> number of blocks

    @property
    def are_too_many(self) -> bool:
        return self.disturbed > MAX_DISTURBED_SHARE * self.blocks

    @property
    def is_of_machine(self) -> bool:
        return not MACHINE_DISTURBANCES.isdisjoint(self.reasons)


def disturbed_blocks(blocks: Sequence[Block], affected_by: frozenset[str] | None = None) -> DisturbedBlocks:
    """Count the blocks with any of these disturbances; None for all."""
    reasons_by_block = [
        [reason for reason in block.disturbed if affected_by is None or reason in affected_by]
        for block in blocks
    ]
    counts = Counter(reason for reasons_of_block in reasons_by_block for reason in reasons_of_block)
    return DisturbedBlocks(
        blocks=len(blocks), disturbed=sum(map(bool, reasons_by_block)), reasons=dict(counts.most_common())
    )


def invalidated_kinds(blocks: Sequence[Block]) -> dict[Kind, DisturbedBlocks]:
    disturbed_by_kind = {
        kind: disturbed_blocks(blocks, affected_by) for kind, affected_by in AFFECTED_BY.items()
    }
    return {kind: disturbed for kind, disturbed in disturbed_by_kind.items() if disturbed.are_too_many}


Sizes = dict[str, tuple[float, float]]
"""Process, or "" for the whole block -> a symptom's size, and the size up to which it is always normal."""


def _is_unusual(block: Block, earlier: list[Block], sizes_of: Callable[[Block], Sizes]) -> bool:
    earlier_sizes = [sizes_of(earlier_block) for earlier_block in earlier]
    return any(
        size > floor
        and size > UNUSUAL_FACTOR * median(sizes.get(process, (0.0, 0.0))[0] for sizes in earlier_sizes)
        for process, (size, floor) in sizes_of(block).items()
    )


_SYMPTOMS: dict[str, Callable[[Block], Sizes]] = {
    "pressure": lambda block: {"": (_share_of_block(block, block.pressure_ms), NORMAL_WAITING)},
    "run queue": lambda block: {
        process: (_share_of_block(block, ms), NORMAL_WAITING) for process, ms in block.run_queue_ms.items()
    },
    "retransmissions": lambda block: {"": (block.retransmissions, NORMAL_RETRANSMISSIONS)},
    "lateness": lambda block: {"": (block.max_lateness_ns, block.period_ns)},
}
DISTURBANCES = ("steal", "others' CPU", "restart", *_SYMPTOMS)


def _share_of_block(block: Block, ms: float) -> float:
    return ms / block.duration_ms if block.duration_ms else 0.0
