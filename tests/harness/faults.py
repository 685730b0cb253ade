"""Search for a schedule of faults that shows a defect."""

from __future__ import annotations

from simulator.faults.draw import draw_faults
from simulator.faults.kinds import play_schedule
from simulator.faults.player import Outcome
from simulator.faults.schedule import FaultSchedule
from simulator.faults.testbed import SimulatedTestbed

SOON = 1_000
"""Number of schedules to search."""


def fails_soon(testbed: SimulatedTestbed, fault: str, first_seed: int = 0) -> tuple[FaultSchedule, Outcome]:
    """Return the first schedule of a fault that loses or doubles an update."""
    for seed in range(first_seed, first_seed + SOON):
        schedule = draw_faults(fault, testbed.arm.name, seed)
        outcome = play_schedule(testbed, schedule)
        if not outcome.holds:
            return schedule, outcome
    raise AssertionError(f"{SOON} schedules of {fault!r} hold")
