"""What tests of schedules of all-reduces check, of every design."""

from __future__ import annotations

import pytest

from simulator.dense.player import Verdict, play
from simulator.dense.schedule import AllReduceSchedule, draw_all_reduces
from simulator.dense.subject import Subject
from simulator.dense.tally import count_verdicts


def some_and_many(schedules: int, soaked: int) -> pytest.MarkDecorator:
    """Parametrize `first`, a seed, and `schedules`: so many, and in soak so many others."""
    many = pytest.param(1 << 20, soaked, marks=pytest.mark.soak)
    return pytest.mark.parametrize(("first", "schedules"), [(0, schedules), many], ids=["some", "many"])


def check_verdicts(subject: Subject, fault: str, first: int, schedules: int, allowed: set[Verdict]) -> None:
    found = count_verdicts(fault, subject, first, schedules)
    assert sum(found.counts.values()) == schedules
    assert {verdict for verdict, count in found.counts.items() if count} <= allowed, found.first_seeds


def check_history(subject: Subject, fault: str) -> None:
    """Check that a schedule is played alike, whatever was played before."""
    found = []
    for _ in range(2):
        play(subject, draw_all_reduces(subject.range, "late copies", 5))
        played = play(subject, draw_all_reduces(subject.range, fault, 8))
        results = [result.tobytes() for of_worker in played.results for result in of_worker]
        testbed = played.testbed
        found.append((played.verdict, results, testbed.network.now, testbed.world.up.frames.tolist()))
    assert found[0] == found[1]


def check_silence(subject: Subject) -> None:
    """Check that a stall that is reported late, or never, is silent."""
    played = play(subject, AllReduceSchedule("worker killed", 7, killed_us=5))
    me = played.testbed.network.clients[1].state.header
    found = [played.verdict]
    me.stalled_at += 2_000_000_000
    found.append(played.verdict)
    me.stalled_at, me.stalled = me.last_arrival, 0
    assert [*found, played.verdict] == [Verdict.STALLED, Verdict.SILENT, Verdict.SILENT]
