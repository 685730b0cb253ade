"""The estimators against plain numpy, and the interval's coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics import paired_difference, pooled, quantile, ratio

latencies = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=8), min_size=1, max_size=6)


def flat(rounds: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(rounds), np.repeat(np.arange(len(rounds)), [len(values) for values in rounds])


@given(latencies, st.sampled_from([0.5, 0.95, 0.99]), st.data())
def test_quantile_of_a_resample_is_that_of_its_observations(
    rounds: list[list[int]], q: float, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.integers(0, len(rounds) - 1), min_size=len(rounds), max_size=len(rounds)))
    counts = np.bincount(drawn, minlength=len(rounds))[None, :]
    expected = np.quantile(np.concatenate([rounds[number] for number in drawn]), q, method="inverted_cdf")
    assert quantile(*flat(rounds), q)(counts) == [expected]


@given(latencies)
def test_ratio_of_sums_and_numbers_is_the_mean(rounds: list[list[int]]) -> None:
    mean = ratio([sum(values) for values in rounds], [len(values) for values in rounds])
    assert pooled(mean, len(rounds)) == pytest.approx(np.concatenate(rounds).mean())


def test_pairing_removes_what_a_round_does_to_both_arms() -> None:
    rng = np.random.default_rng(1)
    round_effect = rng.uniform(0, 1000, 20)
    baseline, arm = ratio(round_effect + 100, np.ones(20)), ratio(round_effect + 90, np.ones(20))
    found = paired_difference(arm, baseline, 20)
    assert found.difference == pytest.approx(-10)
    assert found.low == pytest.approx(-10)
    assert found.high == pytest.approx(-10)


def test_interval_covers_the_true_difference_about_95_times_in_100() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(200):
        baseline = rng.normal(100, 10, 20)
        arm = baseline + rng.normal(5, 3, 20)
        found = paired_difference(ratio(arm, np.ones(20)), ratio(baseline, np.ones(20)), 20)
        covered += found.low <= 5 <= found.high
    assert 176 <= covered <= 198


def test_one_round_has_no_interval() -> None:
    found = paired_difference(ratio([3], [1]), ratio([5], [1]), 1)
    assert found.difference == -2
    assert math.isnan(found.low)
    assert math.isnan(found.high)
