"""Detect disturbed blocks by CPU time of other processes, and by values unusual for the arm.

The CPU shares of the hypervisor and of other processes, and steps of clocks, have absolute bounds. Symptoms
that the experiment can cause itself are bounded relative to the median of the arm's earlier blocks at the
same load. On a machine that is always busy all blocks are alike, so a wait for a CPU has an absolute bound,
too: the CPU time of all agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

import polars as pl

from analysis.disturbed_blocks import CLOSED_LOOP, ROUND, CostSources, DisturbedBlocks
from analysis.metrics import Kind
from analysis.record import Block, Contention, MachineUse, RunRecord
from analysis.unexplained_waits import NORMAL_WAITING, unexplained_share
from foundation.logs.columns import has_load

MAX_STEAL_SHARE = 0.02
"""Maximum share of a block's CPU time for the hypervisor."""
MAX_CLOCK_STEP_MS = 1.0
"""Maximum change of the difference of Unix time and the monotonic clock, which is read to some µs."""
MAX_OTHERS_CPU_SHARE = 0.05
"""Maximum share of a block's CPU time for other processes; the kernel's threads count as the run's."""
RUN_QUEUE = "run queue"
WORKERS = "workers"
UNUSUAL_FACTOR = 3.0  # times the median of earlier blocks
MIN_EARLIER_BLOCKS = 3  # to compute that median
NORMAL_RETRANSMISSIONS = 10
"""Number of retransmissions up to which they are always normal."""
AFFECTED_BY: Mapping[Kind, frozenset[str] | None] = {
    # A restarted server or switch has lost its counts, and fewer workers take fewer steps.
    "count": frozenset({"restart", WORKERS, "retransmissions"}),
    "cpu": frozenset({"restart", WORKERS}),
    "time": None,
    "learning": frozenset(),
}
"""Kind of metric -> disturbances that distort it; None for all. Waiting for a CPU changes
neither the packets that a process sends nor its CPU time."""


def reasons_of_machine(contention: Contention, cpus: int) -> list[str]:
    """Return the disturbances beyond their absolute bounds, which need no other blocks to compare with."""
    # Of several machines each one is looked at, since a disturbed one delays all.
    uses = list(contention.machines.values()) or [
        MachineUse(
            cpus=cpus,
            steal_ms=contention.steal_ms,
            others_cpu_ms=contention.others_cpu_ms,
            pressure_ms=contention.pressure_ms,
        )
    ]
    found_reasons = []
    if any(use.steal_ms > MAX_STEAL_SHARE * use.cpus * contention.duration_ms for use in uses):
        found_reasons.append("steal")
    if any(use.others_cpu_ms > MAX_OTHERS_CPU_SHARE * use.cpus * contention.duration_ms for use in uses):
        found_reasons.append("others' CPU")
    if contention.clock_step_ms > MAX_CLOCK_STEP_MS:
        found_reasons.append("clock")
    return found_reasons


def reasons_to_repeat(block: Block, earlier: Iterable[Block], cpus: int) -> list[str]:
    """Return the reasons to repeat a block, if any; `earlier` are blocks of its arm at its load."""
    found_reasons = reasons_of_machine(block, cpus)
    if block.restarts:
        found_reasons.append("restart")
    if block.worker_changes:
        found_reasons.append(WORKERS)
    if _waits_for_others(block):
        found_reasons.append(RUN_QUEUE)
    earlier_blocks = list(earlier)
    if len(earlier_blocks) >= MIN_EARLIER_BLOCKS:
        found_reasons += [
            name for name in _unusual_symptoms(block, earlier_blocks) if name not in found_reasons
        ]
    return found_reasons


def _unusual_symptoms(block: Block, others: list[Block]) -> list[str]:
    return [name for name, sizes_of in _SYMPTOMS.items() if _is_unusual(block, others, sizes_of)]


def _waits_for_others(block: Block) -> bool:
    """Return whether an agent waited for a CPU for longer than all agents together used one.

    The rest of that time some other program used the CPU, which /proc does not show in a container. In a
    closed loop, and where the switch is a process, the record lacks CPU times that agents may wait for.
    """
    if not block.period_ns or block.program_s is None:
        return False
    agents_ms = 1e3 * (block.worker_cpu_s + block.servers.cpu_s + block.program_s.apart)
    return max(block.run_queue_ms.values(), default=0.0) > agents_ms + NORMAL_WAITING * block.duration_ms


def disturbed_blocks(
    blocks: Sequence[Contention], affected_by: frozenset[str] | None = None
) -> DisturbedBlocks:
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


def cost_sources(record: RunRecord, arms: Iterable[str]) -> CostSources:
    """Return the blocks in which the costs of hosts are measured, where costs are fitted to these arms.

    Blocks of rounds are counted by load. Capacities and empty RPCs are measured in closed loops.
    """
    names = set(arms)
    blocks = [block for block in judge_all(record.blocks) if block.arm in names]
    loads = sorted({block.load for block in blocks})
    by_load = [[block for block in blocks if block.load == load] for load in loads]
    closed_loops = [
        contention
        for _, of_measurement in _capacity_measurements(record)
        for arm, contention in of_measurement.items()
        if arm in names
    ]
    if record.empty_rpcs_contention is not None:
        closed_loops.append(record.empty_rpcs_contention)
    cpus = record.machine.get("cpus", 1)
    sources = [
        cost_source(of_load, cpus, unexplained=unexplained_share(of_load, record.placement))
        for of_load in by_load
    ]
    return (*sources, *([cost_source(closed_loops, cpus, CLOSED_LOOP)] if closed_loops else []))


def cost_source(
    blocks: Sequence[Contention], cpus: int, kind: str = ROUND, unexplained: float = 0.0
) -> DisturbedBlocks:
    """Count the disturbed blocks of a kind, with the share of the CPUs' time that others took in all.

    `unexplained` is such a share by waits (`unexplained_waits`), of programs that may be among the others.
    """
    total_ms = cpus * sum(block.duration_ms for block in blocks)
    taken_ms = sum(block.steal_ms + block.others_cpu_ms for block in blocks)
    taken = max(unexplained, min(1.0, taken_ms / total_ms) if total_ms else 0.0)
    return disturbed_blocks(blocks).model_copy(update={"kind": kind, "taken": taken})


def judge_all(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks with their disturbances, also of the first ones of an arm at a load.

    When these ran there were too few earlier ones to compare them with, so they are compared with later ones.
    """
    judged = []
    for block in blocks:
        alike = [each for each in blocks if (each.arm, each.load) == (block.arm, block.load)]
        others = [each for each in alike if each is not block]
        is_first = any(each is block for each in alike[:MIN_EARLIER_BLOCKS])
        if is_first and len(others) >= MIN_EARLIER_BLOCKS:
            found = [name for name in _unusual_symptoms(block, others) if name not in block.disturbed]
            block = block.model_copy(update={"disturbed": [*block.disturbed, *found]})
        judged.append(block)
    return judged


BlockKey = tuple[str, int, float]
"""Arm, round and load of a block."""


def blocks_without_costs(record: RunRecord) -> tuple[BlockKey, ...]:
    """Return the disturbed blocks, to which no costs are fitted; of an arm without others at a load, none."""
    judged = judge_all(record.blocks)
    undisturbed = {(block.arm, block.load) for block in judged if not block.disturbed}
    return tuple(
        key_of(block) for block in judged if block.disturbed and (block.arm, block.load) in undisturbed
    )


def key_of(block: Block) -> BlockKey:
    return block.arm, block.round, block.load


def is_outside(blocks: Iterable[BlockKey]) -> pl.Expr:
    """Return whether a row of a log is of none of these blocks."""
    arm, number = pl.col("arm").cast(pl.String), pl.col("round")
    rows = [(arm == name) & (number == round_) & has_load(load) for name, round_, load in blocks]
    return ~pl.any_horizontal(rows) if rows else pl.lit(True)


def undisturbed_capacities(record: RunRecord) -> list[dict[str, float]]:
    """Return the measurements of the capacity without disturbed ones; of an arm without others, all."""
    undisturbed = [
        {
            arm: rate
            for arm, rate in capacity.items()
            if arm not in contention or not contention[arm].disturbed
        }
        for capacity, contention in _capacity_measurements(record)
    ]
    known = set().union(*undisturbed)
    return [
        {arm: rate for arm, rate in capacity.items() if arm in kept or arm not in known}
        for (capacity, _), kept in zip(_capacity_measurements(record), undisturbed, strict=True)
    ]


def _capacity_measurements(record: RunRecord) -> list[tuple[dict[str, float], dict[str, Contention]]]:
    return [
        (record.capacity, record.capacity_contention),
        *((check.capacity, check.contention) for check in record.capacity_checks),
    ]


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
    RUN_QUEUE: lambda block: {
        process: (_share_of_block(block, ms), NORMAL_WAITING) for process, ms in block.run_queue_ms.items()
    },
    "retransmissions": lambda block: {"": (block.retransmissions, NORMAL_RETRANSMISSIONS)},
    "lateness": lambda block: {"": (block.max_lateness_ns, block.period_ns)},
}
DISTURBANCES = ("steal", "others' CPU", "clock", "restart", WORKERS, *_SYMPTOMS)


def _share_of_block(block: Block, ms: float) -> float:
    return ms / block.duration_ms if block.duration_ms else 0.0
