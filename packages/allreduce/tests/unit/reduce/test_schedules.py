"""All-reduces at hosts under faults, simulated: 600 schedules a design here, 10,000 in `make soak`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hotline_allreduce.atp.model.subject import PUBLISHED as ATP
from hotline_allreduce.simulation.player import AllReduceVerdict, play
from hotline_allreduce.simulation.schedule import ALL_REDUCE_FAULTS, AllReduceSchedule, draw_all_reduces
from hotline_allreduce.simulation.subject import PSDENSE, RANGE, RING, Subject
from hotline_allreduce.switchml.model.subject import PUBLISHED as SWITCHML
from packages.allreduce.tests.harness.verdicts import check_verdicts, count_verdicts
from tests.harness.faults import some_and_many

SUBJECTS = pytest.mark.parametrize("subject", [PSDENSE, RING], ids=lambda subject: subject.arm.name)
SCHEDULES, SOAKED = 600, 10_000


@pytest.mark.no_cover
@SUBJECTS
@pytest.mark.parametrize("fault", ALL_REDUCE_FAULTS)
@some_and_many(SCHEDULES, SOAKED, rows=len(ALL_REDUCE_FAULTS))
def test_sums_are_equal_at_every_worker(subject: Subject, fault: str, first: int, schedules: int) -> None:
    """Only workers that wait for a dead one stall, and they report it."""
    allowed = {AllReduceVerdict.EQUAL} | ({AllReduceVerdict.STALLED} if fault == "worker killed" else set())
    check_verdicts(subject, fault, first, schedules, allowed)


@SUBJECTS
def test_schedules_retransmit_lose_duplicate_and_delay_packets(subject: Subject) -> None:
    assert count_verdicts("worker killed", subject, 0, 20).counts[AllReduceVerdict.STALLED]
    again = lost = doubled = late = 0
    for seed in range(5):
        world = play(subject, draw_all_reduces(RANGE, "everything", seed)).testbed.world
        again += int(world.workers.header.retransmissions.sum())
        for link in (world.up, world.down):
            lost += int(link.lost.sum())
            doubled += int(link.doubled.sum())
            late += int(link.delayed.sum())
    assert again and lost and doubled and late


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        *((subject, "everything") for subject in (PSDENSE, RING, ATP, SWITCHML)),
        *((subject, "worker killed") for subject in (ATP, SWITCHML)),
        (replace(ATP, leaves=3), "everything, switch restarted"),
        (ATP, "server restarted"),
        (SWITCHML, "switch restarted"),
    ],
    ids=lambda each: each.arm.name if isinstance(each, Subject) else each,
)
def test_a_schedule_is_a_history(subject: Subject, fault: str) -> None:
    """It is played alike, whatever was played before."""
    found = []
    for _ in range(2):
        play(subject, draw_all_reduces(subject.range, "late copies", 5))
        played = play(subject, draw_all_reduces(subject.range, fault, 8))
        results = [result.tobytes() for of_worker in played.results for result in of_worker]
        testbed = played.testbed
        found.append((played.verdict, results, testbed.network.now, testbed.world.up.frames.tolist()))
    assert found[0] == found[1]


def test_wrong_sums_are_found() -> None:
    ones = [np.full(70, 1, np.int32)] * 2
    assert RING.is_sum(np.full(70, 2, np.int32), ones)
    assert not RING.is_sum(np.array([2] * 69 + [3], np.int32), ones)
    played = play(RING, AllReduceSchedule("loss", 7, is_float=True))
    found = [played.verdict]
    played.results[1][0][3] = np.nextafter(played.results[1][0][3], np.float32(1e30))
    # A last bit differs from the other worker's.
    assert [*found, played.verdict] == [AllReduceVerdict.EQUAL, AllReduceVerdict.WRONG]


@pytest.mark.parametrize("subject", [PSDENSE, SWITCHML], ids=lambda subject: subject.arm.name)
def test_a_silent_stall_differs_from_a_reported_stall(subject: Subject) -> None:
    """A stall that is reported late, or never, is silent."""
    played = play(subject, AllReduceSchedule("worker killed", 7, killed_us=5))
    header = played.testbed.network.clients[1].state.header
    found = [played.verdict]
    header.stalled_at += 2_000_000_000
    found.append(played.verdict)
    header.stalled_at, header.stalled = header.last_arrival, 0
    assert [*found, played.verdict] == [
        AllReduceVerdict.STALLED,
        AllReduceVerdict.SILENT,
        AllReduceVerdict.SILENT,
    ]
