"""`exact` under faults: real agents and the real program, simulated on 400 schedules (soak: 100,000)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hotline_allreduce.exact.agents import ExactClient
from hotline_allreduce.exact.subject import RANGE, SUBJECT
from hotline_allreduce.exact.worker import ExactReducer
from hotline_allreduce.simulation.player import AllReduceVerdict, PlayedSchedule, play
from hotline_allreduce.simulation.schedule import draw_all_reduces
from packages.allreduce.tests.harness.verdicts import check_verdicts, count_verdicts
from tests.harness.faults import some_and_many

SCHEDULES, SOAKED = 400, 100_000
RESTARTS = ("switch restarted", "everything, switch restarted")
DEATHS = ("worker killed", "everything, worker killed")
MAY_STALL = {*RESTARTS, *DEATHS}


@pytest.mark.no_cover
@pytest.mark.parametrize("fault", RANGE.faults)
@some_and_many(SCHEDULES, SOAKED, rows=len(RANGE.faults))
def test_sums_are_correctly_rounded_or_a_stall_is_reported(fault: str, first: int, schedules: int) -> None:
    stalls = {AllReduceVerdict.STALLED} if fault in MAY_STALL else set()
    check_verdicts(SUBJECT, fault, first, schedules, {AllReduceVerdict.EQUAL} | stalls)


def awaited_packets(played: PlayedSchedule, w: int) -> set[int]:
    """Return the numbers, counted across all-reduces, of the packets whose sums a worker waits for."""
    state = played.testbed.network.clients[w].state
    assert isinstance(state, ExactReducer)
    return {int(state.header.first_packet + slot.call) for slot in state.slots if slot.busy}


@pytest.mark.parametrize("fault", RESTARTS)
def test_after_a_restart_stalled_workers_wait_for_different_packets(fault: str) -> None:
    """If all waited for the same packets, sending them again would be enough."""
    count = 0
    for seed in range(60):
        played = play(SUBJECT, draw_all_reduces(RANGE, fault, seed))
        if played.verdict is AllReduceVerdict.STALLED:
            awaited = [awaited_packets(played, w) for w in range(played.schedule.workers)]
            assert any(awaited) and any(each != awaited[0] for each in awaited), seed
            count += 1
    assert count > 5


@pytest.mark.parametrize("fault", DEATHS)
def test_an_all_reduce_stalls_only_if_a_dead_worker_takes_part(fault: str) -> None:
    outcomes = set()
    for seed in range(60):
        played = play(SUBJECT, draw_all_reduces(RANGE, fault, seed))
        is_unfinished = len(played.results[played.schedule.target]) < played.schedule.all_reduces
        assert is_unfinished or played.verdict is AllReduceVerdict.EQUAL, seed
        outcomes.add((played.verdict, is_unfinished))
    assert {(AllReduceVerdict.STALLED, True), (AllReduceVerdict.EQUAL, False)} <= outcomes


def test_schedules_meet_faults_and_second_passes() -> None:
    for fault in MAY_STALL:
        assert count_verdicts(fault, SUBJECT, 0, 30).counts[AllReduceVerdict.STALLED]
    shares = []
    for seed in range(40):
        schedule = draw_all_reduces(RANGE, "everything", seed)
        client = play(SUBJECT, schedule).testbed.network.clients[0]
        assert isinstance(client, ExactClient)
        shares.append(client.repeated_share)
        assert bool(client._header.n_floats) == schedule.is_float
    assert np.count_nonzero(shares) > 10 and 0.01 < float(np.mean(shares)) < 0.5


def test_a_sum_that_is_not_correctly_rounded_is_wrong() -> None:
    played = play(SUBJECT, replace(draw_all_reduces(RANGE, "loss", 1), is_float=True))
    before = played.verdict
    for results in played.results:
        results[0].view(np.uint32)[0] ^= 1  # the last bit, at all workers
    assert (before, played.verdict) == (AllReduceVerdict.EQUAL, AllReduceVerdict.WRONG)
