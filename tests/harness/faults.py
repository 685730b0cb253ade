"""Search for a schedule of faults that shows a defect."""

from __future__ import annotations

from simulator.faults.bed import Bed
from simulator.faults.draw import draw
from simulator.faults.play import play_schedule
from simulator.faults.player import Outcome
from simulator.faults.schedule import Schedule

SOON = 1_000
"""Number of schedules to search."""


def fails_soon(bed: Bed, fault: str, first_seed: int = 0) -> tuple[Schedule, Outcome]:
    """Return the first schedule of a fault that loses or doubles an update."""
    for seed in range(first_seed, first_seed + SOON):
        schedule = draw(fault, bed.arm.name, seed)
        outcome = play_schedule(bed, schedule)
        if not outcome.holds:
            return schedule, outcome
    raise AssertionError(f"{SOON} schedules of {fault!r} hold")
