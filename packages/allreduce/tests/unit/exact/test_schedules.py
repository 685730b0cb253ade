"""`exact` under faults: real agents and the real program, simulated on 400 schedules (soak: 100,000)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hotline_allreduce.exact.agents import ExactClient
from hotline_allreduce.exact.subject import RANGE, SUBJECT
from hotline_allreduce.simulation.player import AllReduceVerdict, play
from hotline_allreduce.simulation.schedule import ALL_REDUCE_FAULTS, draw_all_reduces
from packages.allreduce.tests.harness.verdicts import check_verdicts, count_verdicts
from tests.harness.faults import some_and_many

SCHEDULES, SOAKED = 400, 100_000
MAY_STALL = {"switch restarted", "worker killed"}


@pytest.mark.no_cover
@pytest.mark.parametrize("fault", ALL_REDUCE_FAULTS)
@some_and_many(SCHEDULES, SOAKED, rows=len(ALL_REDUCE_FAULTS))
def test_sums_are_correctly_rounded_or_a_stall_is_reported(fault: str, first: int, schedules: int) -> None:
    stalls = {AllReduceVerdict.STALLED} if fault in MAY_STALL else set()
    check_verdicts(SUBJECT, fault, first, schedules, {AllReduceVerdict.EQUAL} | stalls)


def test_faults_and_second_passes_do_happen() -> None:
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
