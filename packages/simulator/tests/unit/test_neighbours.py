"""Jobs beside each other in one simulated switch."""

from __future__ import annotations

import pytest

from foundation.checkout import ROOT
from foundation.designs.collect import COLLECT
from foundation.protocol.header import LANES
from hotline_simulator.costs import Network
from hotline_simulator.neighbours import noisy
from hotline_simulator.neighbours.noisy import (
    KEYS,
    NETWORKS,
    NOISY,
    QUIET,
    QUOTA,
    SLOTS,
    hot_sets,
    loads,
    measure,
    rates_of_jobs,
)

STEPS = 40


def test_a_quota_keeps_a_noisy_job_from_a_jobs_slots() -> None:
    rates = rates_of_jobs(loads(STEPS))
    assert rates[NOISY].rates.sum() == pytest.approx(noisy.NOISY_PUSHES_A_PERIOD * rates[QUIET].rates.sum())
    alone, beside = hot_sets("alone", rates), hot_sets("with a quota", rates)
    assert len(beside[QUIET]) > 0.9 * QUOTA and len(beside[QUIET]) + len(beside[NOISY]) == LANES * SLOTS
    # Lanes in which it wanted more than its quota lend it no slot, as the noisy job wants them all.
    assert set(beside[QUIET]) <= set(alone[QUIET]) and len(alone[NOISY]) == 0
    taken = hot_sets("all slots taken", rates)
    assert (len(taken[QUIET]), len(taken[NOISY])) == (0, LANES * SLOTS)
    assert LANES * SLOTS < KEYS


@pytest.mark.parametrize("network", NETWORKS.values(), ids=list(NETWORKS))
def test_a_noisy_job_costs_its_neighbour_no_more_than_shared_cables_explain(network: Network) -> None:
    found = {case: measure(case, network, STEPS) for case in noisy.CASES}
    alone, beside = found["alone"], found["with a quota"]
    assert beside.hit_share > 0.98 * alone.hit_share > 0.6
    assert found["all slots taken"].hit_share == 0
    explained = found["its keys at its servers"]
    if network.rack is None:
        assert explained == alone
    for time in ("median_us", "p99_us"):
        assert getattr(beside, time) <= getattr(explained, time) * 1.02 + 0.5


def test_a_quota_keeps_a_noisy_job_from_the_slots_of_a_job_of_collect() -> None:
    found = {case: measure(case, Network(), STEPS, arm=COLLECT) for case in noisy.CASES[:3]}
    assert found["all slots taken"].hit_share == 0
    assert found["with a quota"].hit_share > 0.98 * found["alone"].hit_share > 0.6
    assert found["with a quota"].p99_us <= found["alone"].p99_us * 1.02 + 0.5


@pytest.mark.soak
def test_the_page_has_the_hits_of_the_quiet_job() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    found = measure("alone", Network(), steps=1_000)
    assert f"hits fall from {found.hit_share:.1%} to 0".replace("%", " %") in page.replace("\n", " ")
    assert f"instead of {found.median_us:.1f}" in page.replace("\n", " ")
