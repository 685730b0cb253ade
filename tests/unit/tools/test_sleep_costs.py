"""The cost of a server's sleep is found in blocks that differ in packets for each sleep."""

from __future__ import annotations

import random

import pytest

from analysis.record import AnalysisError, Block, ProgramUse, ServerUse
from switch_harness.wording import mentions
from tools.sleep_costs import fit


def block(packets: int, sleeps: int, kernel_us: float, program_s: float | None) -> Block:
    cpu_s = (program_s or 0) + (kernel_us + 7_000) / 1e6
    return Block(
        round=0, load=0.5, arm="baseline", first_step=0, steps=10, period_ns=1, loss=None, max_lateness_ns=0,
        fell_behind=False, worker_cpu_s=1.0, run_queue_ms={},
        program_s=None if program_s is None else ProgramUse(workers=1.0, servers=program_s),
        servers=ServerUse(packets=packets, waits=sleeps, proc_cpu_ns=7_000_000, cpu_s=cpu_s),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("program_s", [None, 0.02])
def test_costs_of_packets_and_sleeps_are_found(seed: int, program_s: float | None) -> None:
    """Kernel time is 3.7 µs of a packet and 20 µs of a sleep, with noise of 1 %."""
    rng, blocks = random.Random(seed), list[Block]()
    for _ in range(24):
        packets, sleeps = rng.randrange(5_000, 20_000), rng.randrange(300, 2_000)
        kernel_us = (3.7 * packets + 20 * sleeps) * rng.uniform(0.99, 1.01)
        blocks.append(block(packets, sleeps, kernel_us, program_s))
    blocks.append(block(5_000, 0, 1e6, program_s))  # its servers did not count
    found = fit(blocks)
    assert found.packet_us == pytest.approx(3.7, rel=0.03) and found.sleep_us == pytest.approx(20, rel=0.1)


def test_without_counts_there_is_nothing_to_fit() -> None:
    with pytest.raises(AnalysisError, match=mentions("sleeps", "1")):
        fit([block(1_000, 10, 4_000, None), block(1_000, 0, 4_000, None)])
