"""`python -m tools.sleep_costs RUN...`: CPU time of a server's sleep in runs, and the time to wake a core.

The servers' CPU time without program and RPC functions is taken as linear in their packets and in their
sleeps, and fitted to all blocks, in which arms and loads differ in packets for each sleep.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analysis.record import AnalysisError, Block, read_record
from foundation.errors import HotlineError
from hotline_simulator.dedicated_switch.similar_run import mean_wait_us


class KernelCosts(NamedTuple):
    """CPU time of servers in the kernel, µs."""

    packet_us: float
    sleep_us: float


def fit(blocks: Sequence[Block]) -> KernelCosts:
    """Return the costs that fit the blocks, of which servers have counted the sleeps."""
    from scipy.optimize import nnls  # here, since the import takes 0.3 s, in each process that collects tests

    counted = [block for block in blocks if block.servers.waits]
    if len(counted) < 2:
        raise AnalysisError(f"expected two blocks or more with sleeps of servers, got {len(counted)}")
    counts = np.array([(block.servers.packets, block.servers.waits) for block in counted], float)
    kernel_us = np.array([_kernel_us(block) for block in counted])
    weights = 1 / np.sqrt(counts[:, 0])
    costs, _ = nnls(counts * weights[:, None], np.maximum(kernel_us, 0) * weights)
    return KernelCosts(*map(float, costs))


def _kernel_us(block: Block) -> float:
    program_s = 0.0 if block.program_s is None else block.program_s.servers
    return 1e6 * (block.servers.cpu_s - program_s) - block.servers.proc_cpu_ns / 1e3


def describe(runs: Iterable[Path]) -> Iterable[str]:
    for run in runs:
        blocks = read_record(run).blocks
        costs, wake_us = fit(blocks), mean_wait_us(run)
        arms = []
        for arm in dict.fromkeys(block.arm for block in blocks):
            servers = [block.servers for block in blocks if block.arm == arm]
            packets = sum(each.packets for each in servers)
            bursts, sleeps = (sum(getattr(each, name) for each in servers) for name in ("bursts", "waits"))
            arms.append(f"{arm} {packets / bursts:.1f} packets a burst, {packets / sleeps:.1f} a sleep")
        yield (
            f"{run}: {costs.packet_us:.2f} µs a packet, {costs.sleep_us:.1f} µs a sleep, "
            f"{wake_us:.1f} µs to wake up; {'; '.join(arms)}"
        )


if __name__ == "__main__":
    try:
        for line in describe(map(Path, sys.argv[1:])):
            print(line)
    except HotlineError as error:
        raise SystemExit(str(error)) from None
