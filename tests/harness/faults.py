"""Schedules of faults: how many a test plays, and what it checks of them."""

from __future__ import annotations

import pytest

from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.player import ScheduleOutcome
from hotline_simulator.faults.schedule import FaultSchedule
from hotline_simulator.faults.testbed import SimulatedTestbed

SOON = 1_000
"""Number of schedules to search."""


def some_and_many(schedules: int, soaked: int, rows: int) -> pytest.MarkDecorator:
    """Parametrize `first`, a seed, and `schedules`: a row's share of `schedules`, or of `soaked` in soak."""
    some, many = (-(-each // rows) for each in (schedules, soaked))
    soak = pytest.param(1 << 20, many, marks=pytest.mark.soak)
    return pytest.mark.parametrize(("first", "schedules"), [(0, some), soak], ids=["some", "many"])


def fails_soon(
    testbed: SimulatedTestbed, fault: str, first_seed: int = 0, arm: str | None = None
) -> tuple[FaultSchedule, ScheduleOutcome]:
    """Return the first schedule of a fault that loses or doubles an update, by default in the same arm."""
    for seed in range(first_seed, first_seed + SOON):
        schedule = draw_faults(fault, arm or testbed.arm.name, seed)
        outcome = play_schedule(testbed, schedule)
        if not outcome.holds:
            return schedule, outcome
    raise AssertionError(f"{SOON} schedules of {fault!r} hold")
