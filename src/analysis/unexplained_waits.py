"""CPU time that other programs took, by waits for a CPU that the run itself does not explain.

An agent waits for its CPU while something else runs there. What it waited beyond the CPU time of the other
agents on its CPU, some other program took, whether or not /proc shows that program. Of the time in which the
agent could have run and no other agent did, this is the share that others took.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from analysis.record import ANY, Block, Json

NORMAL_WAITING = 0.1
"""Share of a block up to which waiting for a CPU is always normal."""


def unexplained_share(blocks: Sequence[Block], placement: Json) -> float:
    """Return the share of a CPU's time that unknown programs took from an agent, as a mean of blocks.

    Waits within `NORMAL_WAITING` count as none: the scheduler and the kernel's threads also make agents wait.
    """
    return mean(_unexplained_of(block, placement) for block in blocks) if blocks else 0.0


def _unexplained_of(block: Block, placement: Json) -> float:
    # In a closed loop, and where the switch is a process, the record lacks CPU times that agents wait for.
    if not block.period_ns or block.program_s is None or not block.duration_ms:
        return 0.0
    program, waits = block.program_s, block.run_queue_ms.items()
    workers_ms = [ms for name, ms in waits if name.startswith("worker-")]
    servers_ms = [ms for name, ms in waits if name.startswith("ps-")]
    workers_cpus, servers_cpus = _cpus(placement.get("workers")), _cpus(placement.get("servers"))
    if workers_cpus and servers_cpus and workers_cpus.isdisjoint(servers_cpus):
        groups = [
            _Group(workers_ms, len(workers_cpus), block.worker_cpu_s, program.on_workers),
            _Group(servers_ms, len(servers_cpus), block.servers.cpu_s, program.on_servers),
        ]
    else:
        agents_s = block.worker_cpu_s + block.servers.cpu_s
        groups = [_Group([*workers_ms, *servers_ms], 1, agents_s, program.apart)]
    return max(group.unexplained_share(block.duration_ms) for group in groups)


class _Group(NamedTuple):
    """Agents that share CPUs (`topologies.cpu_placement`), and use about as much CPU time."""

    waits_ms: Sequence[float]
    cpus: int
    agents_s: float  # CPU time of all of them
    program_s: float
    """CPU time of the switch's program there, for frames of others."""

    def unexplained_share(self, duration_ms: float) -> float:
        if not self.waits_ms:
            return 0.0
        own_ms = 1e3 * self.agents_s / len(self.waits_ms)
        others_on_cpu = -(-len(self.waits_ms) // self.cpus) - 1
        unexplained_ms = max(self.waits_ms) - others_on_cpu * own_ms - 1e3 * self.program_s
        if unexplained_ms <= NORMAL_WAITING * duration_ms:
            return 0.0
        return unexplained_ms / (unexplained_ms + own_ms)


def _cpus(placed: object) -> set[int]:
    """Return the CPUs of a placement; an empty set for any CPU, and where it is not known."""
    if placed is None or placed == ANY:
        return set()
    return set(placed) if isinstance(placed, list) else {int(str(placed))}
