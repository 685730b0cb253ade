"""CPU time that other programs took, by waits for a CPU that the run itself does not explain.

An agent waits for its CPU while something else runs there. What it waited beyond the CPU time of the other
agents on its CPU, some other program took, whether or not /proc shows that program.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from analysis.record import ANY, Block, Json

NORMAL_WAITING = 0.1
"""Share of a block up to which waiting for a CPU is always normal."""


def unexplained_share(blocks: Sequence[Block], placement: Json) -> float:
    """Return the share of a CPU's time that unknown programs took, by the longest waits, as a mean of blocks.

    What is within `NORMAL_WAITING` counts as none: the scheduler and the kernel's threads also make agents
    wait.
    """
    return min(1.0, mean(_unexplained_of(block, placement) for block in blocks)) if blocks else 0.0


def _unexplained_of(block: Block, placement: Json) -> float:
    # In a closed loop, and where the switch is a process, the record lacks CPU times that agents wait for.
    if not block.period_ns or block.program_s is None or not block.duration_ms:
        return 0.0
    program = block.program_s
    workers_cpus, servers_cpus = _cpus(placement.get("workers")), _cpus(placement.get("servers"))
    if workers_cpus and servers_cpus and workers_cpus.isdisjoint(servers_cpus):
        beyond_ms = [
            _beyond_others_ms(block, "worker-", len(workers_cpus), block.worker_cpu_s, program.on_workers),
            _beyond_others_ms(block, "ps-", len(servers_cpus), block.servers.cpu_s, program.on_servers),
        ]
    else:
        agents_s = block.worker_cpu_s + block.servers.cpu_s + program.apart
        beyond_ms = [max(block.run_queue_ms.values(), default=0.0) - 1e3 * agents_s]
    share = max(beyond_ms) / block.duration_ms
    return share if share > NORMAL_WAITING else 0.0


def _beyond_others_ms(block: Block, prefix: str, cpus: int, agents_s: float, program_s: float) -> float:
    """Return the longest wait of an agent of a kind, without the CPU time of others of the run on its CPU.

    Agents of a kind take turns at its CPUs (`topologies.placement`), and use about as much CPU time.
    `program_s` is that of the switch's program there, for frames of the other kind.
    """
    waits_ms = [ms for name, ms in block.run_queue_ms.items() if name.startswith(prefix)]
    if not waits_ms:
        return 0.0
    others_on_cpu = -(-len(waits_ms) // cpus) - 1
    return max(waits_ms) - 1e3 * (agents_s * others_on_cpu / len(waits_ms) + program_s)


def _cpus(placed: object) -> set[int]:
    """Return the CPUs of a placement; an empty set for any CPU, and where it is not known."""
    if placed is None or placed == ANY:
        return set()
    return set(placed) if isinstance(placed, list) else {int(str(placed))}
