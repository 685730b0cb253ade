"""ATP under faults: real agents and the real program, simulated on 1,000 schedules (soak: 100,000)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotline_allreduce.atp.model.subject import CHECKED, PUBLISHED, RANGE, with_published_timers
from hotline_allreduce.simulation.player import AllReduceVerdict
from hotline_allreduce.simulation.subject import Subject
from packages.allreduce.tests.harness.verdicts import check_verdicts, count_verdicts
from tests.harness.faults import some_and_many

# The published timers resend far more often: every 0.2 ms, once anything has come.
HASTY, HASTY_CHECKED = map(with_published_timers, (PUBLISHED, CHECKED))
LEAVES, LEAVES_CHECKED = (replace(subject, leaves=3) for subject in (PUBLISHED, CHECKED))
"""In a network of two or three leaves and a spine, of which one loses its state."""
SUBJECTS = {
    "published": PUBLISHED, "checked": CHECKED, "hasty": HASTY, "hasty-checked": HASTY_CHECKED,
    "leaves": LEAVES, "leaves-checked": LEAVES_CHECKED,
}  # fmt: skip
MAY_STALL = {"server restarted", "worker killed", "everything, worker killed"}
"""What no check can mend."""
ROWS = [
    pytest.param(fault, subject, id=f"{fault}-{name}")
    for fault in RANGE.faults
    for name, subject in SUBJECTS.items()
    if subject not in (HASTY, HASTY_CHECKED) or fault not in MAY_STALL
]
SCHEDULES, SOAKED = 1_000, 100_000
LOSES_NOTHING = {"duplication"}
"""Faults in which every frame arrives in time, so that nothing goes wrong."""


def may_be(fault: str, subject: Subject) -> set[AllReduceVerdict]:
    if subject in (CHECKED, HASTY_CHECKED, LEAVES_CHECKED) or fault in LOSES_NOTHING:
        return {AllReduceVerdict.EQUAL} | ({AllReduceVerdict.STALLED} if fault in MAY_STALL else set())
    return {AllReduceVerdict.EQUAL, AllReduceVerdict.STALLED, AllReduceVerdict.WRONG}


@pytest.mark.no_cover
@pytest.mark.parametrize(("fault", "subject"), ROWS)
@some_and_many(SCHEDULES, SOAKED, rows=len(ROWS))
def test_sums_are_equal_or_a_stall_is_reported(
    fault: str, subject: Subject, first: int, schedules: int
) -> None:
    check_verdicts(subject, fault, first, schedules, may_be(fault, subject))


def test_schedules_meet_wrong_sums_and_stalls() -> None:
    """The published rules meet wrong sums by loss alone, and deaths stall some."""
    assert count_verdicts("loss", PUBLISHED, 0, 100).counts[AllReduceVerdict.WRONG]
    for subject in (PUBLISHED, LEAVES):
        assert count_verdicts("late copies", subject, 0, 20).counts[AllReduceVerdict.WRONG]
    for fault in MAY_STALL:
        assert count_verdicts(fault, CHECKED, 0, 30).counts[AllReduceVerdict.STALLED]
