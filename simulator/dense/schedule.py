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
    "switch restarted": "the switch forgets all and goes on, and frames are lost",
    "worker killed": "a worker dies",
    "everything": "all of these but the last two",
}
"""Fault -> what happens."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The conditions of some all-reduces; all that is random in them follows from `seed`."""

    fault: str
    seed: int
    workers: int = 2
    window: int = 2
    chunk_size: int = 64
    """Values of a packet, where a design has others than 64."""
    values: int = 500
    """Of a vector."""
    all_reduces: int = 2
    is_float: bool = False
    delay_us: int = 2
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    extra_delay_us: int = 0
    cable_us: int | None = None
    """When the cable of worker `who` breaks, after the beginning, for `lasts_us`; None: never."""
    restarted_us: int | None = None
    """When the switch forgets all but its rows."""
    killed_us: int | None = None
    """When worker `who` dies."""
    lasts_us: int = 0
    who: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """What the schedules of some designs are drawn from; what stands twice comes twice as often."""

    name: str
    """Those of another name are others."""
    workers: tuple[int, ...]
    windows: tuple[int, ...]
    chunk_sizes: tuple[int, ...]
    most_values: int


def draw(of: Range, fault: str, seed: int) -> Schedule:
    """The schedule of a fault with a seed."""
    random = Random(f"{of.name} {fault} {seed}")
    schedule = Schedule(
        fault, random.getrandbits(62),
        workers=random.choice(of.workers),
        window=random.choice(of.windows),
        values=random.randint(1, of.most_values),
        all_reduces=random.randint(1, 3),
        is_float=random.random() < 0.5,
        delay_us=random.choice([1, 5, 20]),
        extra_delay_us=random.choice([50, 200, 2_000, 30_000]),
    )  # fmt: skip
    rate = random.choice([0.01, 0.05, 0.2])
    at_us = random.randrange(10, 300)
    schedule = replace(
        schedule,
        who=random.randrange(schedule.workers),
        lasts_us=random.choice([100, 2_000, 100_000]),
        chunk_size=random.choice(of.chunk_sizes),
    )
    found = {
        "loss": replace(schedule, loss=rate),
        "duplication": replace(schedule, duplication=rate),
        "reordering": replace(schedule, reordering=rate),
        "late copies": replace(schedule, duplication=rate, reordering=rate),
        "cable": replace(schedule, cable_us=at_us),
        "switch restarted": replace(schedule, restarted_us=at_us, loss=rate),
        "worker killed": replace(schedule, killed_us=at_us),
        "everything": replace(schedule, cable_us=at_us, loss=rate / 4, duplication=rate, reordering=rate),
    }
    return found[fault]
