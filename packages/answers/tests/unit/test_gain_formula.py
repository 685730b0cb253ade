"""The gain by the formula: against a queue that is simulated, limits, and the table of the page."""

from __future__ import annotations

import heapq
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.checkout import ROOT
from hotline_answers.gain_formula import BOUND, MIN_WITHIN, SEEDS, _throughput, drawn_cluster, estimated_gain
from tools.evidence.result import published_table

README = ROOT / "packages" / "answers" / "README.md"
SHARES = st.floats(0.01, 0.99)


@pytest.mark.parametrize(("workers", "outside"), [(2, 1.0), (8, 10.0), (16, 3.0)])
def test_the_throughput_equals_a_simulated_closed_queue(workers: int, outside: float) -> None:
    """Exponential times at the server and outside of it; 200,000 steps."""
    rng, steps, work = np.random.default_rng(1), 200_000, 1.0
    arrivals = [float(each) for each in rng.exponential(outside, workers)]
    heapq.heapify(arrivals)
    free_at = 0.0
    for _ in range(steps):
        free_at = max(free_at, heapq.heappop(arrivals)) + rng.exponential(work)
        heapq.heappush(arrivals, free_at + rng.exponential(outside))
    assert _throughput(workers, outside, work) == pytest.approx(steps / free_at, rel=0.01)


@given(st.integers(1, 64), SHARES, SHARES)
def test_a_gain_is_at_most_the_gain_of_full_servers(workers: int, utilization: float, spared: float) -> None:
    gain = estimated_gain(workers, utilization, spared)
    assert 1 <= gain <= 1 / (1 - spared) + 1e-6


@given(st.integers(1, 64), SHARES, SHARES, SHARES)
def test_fuller_servers_gain_more(workers: int, one: float, other: float, spared: float) -> None:
    gains = [estimated_gain(workers, utilization, spared) for utilization in sorted((one, other))]
    assert gains == sorted(gains) or gains == pytest.approx(sorted(gains))


def test_one_worker_gains_the_spared_time() -> None:
    assert estimated_gain(1, 0.5, 0.4) == pytest.approx(1 / (1 - 0.5 * 0.4))


@pytest.mark.parametrize(("utilization", "spared"), [(0, 0.5), (1, 0.5), (0.5, -0.1), (0.5, 1.1)])
def test_shares_outside_of_their_range_are_refused(utilization: float, spared: float) -> None:
    with pytest.raises(ValueError, match="expected a utilization"):
        estimated_gain(8, utilization, spared)


def test_the_table_of_the_page_has_the_values_of_the_formula() -> None:
    rows = re.findall(r"^\| (\d+) % \| × ([\d.]+) \| × ([\d.]+) \| × ([\d.]+) \|$", README.read_text(), re.M)
    assert [row[0] for row in rows] == ["30", "50", "70", "90", "99"]
    for busy, *gains in rows:
        expected = [estimated_gain(8, int(busy) / 100, spared) for spared in (0.2, 0.4, 0.6)]
        assert gains == [f"{gain:.2f}" for gain in expected]


def test_the_page_says_whether_the_bound_is_kept() -> None:
    within = published_table("gain-formula").cell("all", f"within {100 * BOUND:.0f} %")
    assert len(SEEDS) == 30 and within == MIN_WITHIN - 1
    assert "misses this bound by one" in README.read_text()


def test_drawn_clusters_differ_in_every_drawn_setting() -> None:
    clusters = [drawn_cluster(seed) for seed in SEEDS]
    for name in ("workers", "servers", "compute_ms", "dim", "top_k", "hosts", "keys_per_step", "skew"):
        assert len({getattr(cluster, name) for cluster in clusters}) > 1, name
