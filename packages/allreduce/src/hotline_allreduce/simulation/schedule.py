"""Schedules of all-reduces under faults, and how a seed determines them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

ALL_REDUCE_FAULTS = {
    "loss": "frames are lost",
    "duplication": "frames come twice",
    "reordering": "frames come later than those behind them",
    "late copies": "frames come twice, the second later than those behind it",
    "cable": "a worker's cable is down for a while",
    "switch restarted": "the switch loses its state and continues, and frames are lost",
    "worker killed": "a worker dies",
    "everything": "all of these but the last two",
}
SERVER_FAULTS = {"server restarted": "a server loses its state and continues, and frames are lost"}
LATER_KILLS = {
    "everything, switch restarted": "the same, and the switch loses its state and continues",
    "everything, worker killed": "the same, and a worker dies",
}
FAULTS = ALL_REDUCE_FAULTS | SERVER_FAULTS | LATER_KILLS


@dataclass(frozen=True, slots=True)
class AllReduceSchedule:
    fault: str
    seed: int
    workers: int = 2
    window: int = 2
    chunk_size: int = 64
    values: int = 500
    all_reduces: int = 2
    is_float: bool = False
    delay_us: int = 2
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    extra_delay_us: int = 0
    cable_us: int | None = None
    """When the cable of worker `target` fails, for `duration_us`; None means never."""
    restarted_us: int | None = None  # when the switch restarts
    server_restarted_us: int | None = None
    killed_us: int | None = None
    duration_us: int = 0
    target: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleRange:
    name: str
    # A number that is repeated is drawn more often.
    workers: tuple[int, ...]
    windows: tuple[int, ...]
    chunk_sizes: tuple[int, ...]
    max_values: int
    integer_bits: int = 32
    """Width of the signed integers that are added up, bits."""
    faults: tuple[str, ...] = tuple(ALL_REDUCE_FAULTS)
    octaves: int = 0
    """Range of the magnitudes of a vector's floats, in octaves; with a range, many sums also cancel."""


def draw_all_reduces(limits: ScheduleRange, fault: str, seed: int) -> AllReduceSchedule:
    # A seed determines the schedule, so draws must keep their order.
    random = Random(f"{limits.name} {fault} {seed}")
    schedule = AllReduceSchedule(
        fault,
        seed=random.getrandbits(62),
        workers=random.choice(limits.workers),
        window=random.choice(limits.windows),
        values=random.randint(1, limits.max_values),
        all_reduces=random.randint(1, 3),
        is_float=random.random() < 0.5,
        delay_us=random.choice([1, 5, 20]),
        extra_delay_us=random.choice([50, 200, 2_000, 30_000]),
    )  # fmt: skip
    rate = random.choice([0.01, 0.05, 0.2])
    at_us = random.randrange(10, 300)
    schedule = replace(
        schedule,
        target=random.randrange(schedule.workers),
        duration_us=random.choice([100, 2_000, 100_000]),
        chunk_size=random.choice(limits.chunk_sizes),
    )
    everything = replace(schedule, cable_us=at_us, loss=rate / 4, duplication=rate, reordering=rate)
    variants = {
        "loss": replace(schedule, loss=rate),
        "duplication": replace(schedule, duplication=rate),
        "reordering": replace(schedule, reordering=rate),
        "late copies": replace(schedule, duplication=rate, reordering=rate),
        "cable": replace(schedule, cable_us=at_us),
        "switch restarted": replace(schedule, restarted_us=at_us, loss=rate),
        "server restarted": replace(schedule, server_restarted_us=at_us, loss=rate),
        "worker killed": replace(schedule, killed_us=at_us),
        "everything": everything,
        "everything, switch restarted": replace(everything, restarted_us=2 * at_us),
        "everything, worker killed": replace(everything, killed_us=2 * at_us),
    }
    return variants[fault]
