"""Schedules of faults, each drawn from a seed, that all-reduces are played under."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

FAULTS = {
    "loss": "frames are lost",
    "duplication": "frames come twice",
    "reordering": "frames come later than those behind them",
    "late copies": "frames come twice, the second later than those behind it",
    "cable": "a worker's cable is down for a while",
    "worker killed": "a worker dies",
    "everything": "all of these but the last",
}
"""Fault -> what happens."""
MOST_VALUES = 600
"""Of a vector."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The conditions of some all-reduces; all that is random in them follows from `seed`."""

    fault: str
    seed: int
    workers: int = 2
    window: int = 2
    chunk_size: int = 64
    values: int = 500
    """Of a vector."""
    all_reduces: int = 2
    is_float: bool = False
    delay_us: int = 2
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    late_us: int = 0
    cable_us: int | None = None
    """When the cable of worker `who` breaks, after the beginning, for `lasts_us`; None: never."""
    killed_us: int | None = None
    """When worker `who` dies."""
    lasts_us: int = 0
    who: int = 0


def draw(fault: str, seed: int) -> Schedule:
    """The schedule of a fault with a seed."""
    random = Random(f"dense {fault} {seed}")
    workers = random.choice([2, 2, 3, 4, 7])
    schedule = Schedule(
        fault, random.getrandbits(62), workers,
        window=random.choice([1, 2, 4, 64]),
        chunk_size=random.choice([64, 64, 100]),
        values=random.randint(1, MOST_VALUES),
        all_reduces=random.randint(1, 3),
        is_float=random.random() < 0.5,
        delay_us=random.choice([1, 5, 20]),
        late_us=random.choice([50, 200, 2_000, 30_000]),
        who=random.randrange(workers),
        lasts_us=random.choice([100, 2_000, 100_000]),
    )  # fmt: skip
    rate, at_us = random.choice([0.01, 0.05, 0.2]), random.randrange(10, 300)
    found = {
        "loss": replace(schedule, loss=rate),
        "duplication": replace(schedule, duplication=rate),
        "reordering": replace(schedule, reordering=rate),
        "late copies": replace(schedule, duplication=rate, reordering=rate),
        "cable": replace(schedule, cable_us=at_us),
        "worker killed": replace(schedule, killed_us=at_us),
        "everything": replace(schedule, cable_us=at_us, loss=rate / 4, duplication=rate, reordering=rate),
    }
    return found[fault]
