"""Sizes and durations of the measurements in the full and in the quick bench."""

from __future__ import annotations

from typing import NamedTuple


class Scale(NamedTuple):
    rounds: int
    trial_seconds: float
    latency_seconds: float
    calls: int  # of the packet function
    table_sizes: tuple[int, ...]  # numbers of entries
    port_counts: tuple[int, ...]  # numbers of ports of a switch
    writes: int  # table writes whose rate is measured
    stored_entries: int  # entries whose memory is measured
    soak_seconds: float
    is_quick: bool


FULL = Scale(
    rounds=3,
    trial_seconds=0.3,
    latency_seconds=2.0,
    calls=400_000,
    table_sizes=(1_000, 10_000, 100_000, 1_000_000),
    port_counts=(2, 8, 64),
    writes=200_000,
    stored_entries=1_000_000,
    soak_seconds=60.0,
    is_quick=False,
)
QUICK = Scale(
    rounds=1,
    trial_seconds=0.1,
    latency_seconds=0.5,
    calls=100_000,
    table_sizes=(1_000, 10_000, 100_000),
    port_counts=(2, 64),
    writes=40_000,
    stored_entries=100_000,
    soak_seconds=5.0,
    is_quick=True,
)
