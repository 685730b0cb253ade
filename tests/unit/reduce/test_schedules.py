"""All-reduces at hosts under faults, simulated: 1,000 schedules a design here, 10,000 in `make soak`."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.dense.player import Verdict, play
from simulator.dense.schedule import ALL_REDUCE_FAULTS, AllReduceSchedule, draw_all_reduces
from simulator.dense.subject import PSDENSE, RANGE, RING, Subject
from simulator.dense.tally import count_verdicts
from tests.harness.all_reduces import check_history, check_silence, check_verdicts, some_and_many

SUBJECTS = pytest.mark.parametrize("subject", [PSDENSE, RING], ids=lambda subject: subject.arm.name)
SCHEDULES, SOAKED = 1_000, 10_000
OF_A_FAULT, SOAKED_OF_A_FAULT = (-(-each // len(ALL_REDUCE_FAULTS)) for each in (SCHEDULES, SOAKED))


@pytest.mark.no_cover
@SUBJECTS
@pytest.mark.parametrize("fault", ALL_REDUCE_FAULTS)
@some_and_many(OF_A_FAULT, SOAKED_OF_A_FAULT)
def test_sums_are_equal_at_every_worker(subject: Subject, fault: str, first: int, schedules: int) -> None:
    """Only workers that wait for a dead one stall, and they report it."""
    allowed = {Verdict.EQUAL} | ({Verdict.STALLED} if fault == "worker killed" else set())
    check_verdicts(subject, fault, first, schedules, allowed)


@SUBJECTS
def test_faults_do_happen(subject: Subject) -> None:
    assert count_verdicts("worker killed", subject, 0, 20).counts[Verdict.STALLED]
    again = lost = doubled = late = 0
    for seed in range(5):
        world = play(subject, draw_all_reduces(RANGE, "everything", seed)).testbed.world
        again += int(world.calls.header.retransmissions.sum())
        for link in (world.up, world.down):
            lost += int(link.lost.sum())
            doubled += int(link.doubled.sum())
            late += int(link.delayed.sum())
    assert again and lost and doubled and late


@SUBJECTS
def test_a_schedule_is_a_history(subject: Subject) -> None:
    check_history(subject, "everything")


def test_wrong_sums_are_found() -> None:
    ones = [np.full(70, 1, np.int32)] * 2
    assert RING.is_sum(np.full(70, 2, np.int32), ones)
    assert not RING.is_sum(np.array([2] * 69 + [3], np.int32), ones)
    played = play(RING, AllReduceSchedule("loss", 7, is_float=True))
    found = [played.verdict]
    played.results[1][0][3] = np.nextafter(played.results[1][0][3], np.float32(1e30))
    # A last bit differs from the other worker's.
    assert [*found, played.verdict] == [Verdict.EQUAL, Verdict.WRONG]


def test_a_silent_stall_differs_from_a_reported_one() -> None:
    check_silence(PSDENSE)
