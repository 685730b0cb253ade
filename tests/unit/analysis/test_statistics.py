"""The estimators against plain numpy, and the interval's coverage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from analysis.statistics import MIN_ROUNDS, Estimator, compare_paired, interval, pooled, quantile, ratio

latencies = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=8), min_size=1, max_size=6)


def means(of_rounds: npt.ArrayLike) -> Estimator:
    """The mean of rounds that have one observation each."""
    return ratio(of_rounds, np.ones(len(np.asarray(of_rounds))))


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
    found = compare_paired(means(round_effect + 90), means(round_effect + 100), 20)
    assert found.difference == pytest.approx(-10)
    assert found.low == pytest.approx(-10)
    assert found.high == pytest.approx(-10)


@pytest.mark.parametrize(("rounds", "least"), [(MIN_ROUNDS, 0.9), (10, 0.92)])
def test_intervals_cover_the_truth_about_95_times_in_100(rounds: int, least: float) -> None:
    """Rounds differ much, the arm takes 0.8 of the baseline's time in each, and both are noisy.

    Plain percentile intervals of 5 rounds cover the truth in 83 of 100 cases, those of 10 in 89.
    """
    rng = np.random.default_rng(2)
    trials, spread = 1000, 0.3
    covered = np.zeros(2)
    for _ in range(trials):
        of_round = 100 * rng.lognormal(sigma=0.3, size=rounds)
        baseline, arm = (of_round * rng.lognormal(-(spread**2) / 2, spread, rounds) for _ in range(2))
        found = compare_paired(means(0.8 * arm), means(baseline), rounds)
        assert found.low is not None and found.high is not None
        assert found.ratio_low is not None and found.ratio_high is not None
        true = -0.2 * 100 * np.exp(0.3**2 / 2)
        covered += [found.low <= true <= found.high, found.ratio_low <= -0.2 <= found.ratio_high]
    assert ((covered > least * trials) & (covered < 0.98 * trials)).all(), covered / trials


@pytest.mark.parametrize(("rounds", "tail"), [(5, 0.00096), (10, 0.00855), (20, 0.01588)])
def test_an_interval_is_as_wide_as_students_t(rounds: int, tail: float) -> None:
    """From tables: t of 4, 9 and 19 degrees of freedom is 2.776, 2.262 and 2.093 at 97.5 %.

    Times the square root of 5/4, 10/9 and 20/19 that is 3.104, 2.385 and 2.147 of the normal distribution,
    below which are 0.096, 0.855 and 1.588 %.
    """
    low, high = interval(np.linspace(0, 1, 100_001), rounds)
    assert (low, high) == pytest.approx((tail, 1 - tail), abs=1e-5)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=MIN_ROUNDS, max_size=9))
def test_nothing_falls_by_more_than_all(pairs: list[tuple[int, int]]) -> None:
    arm, baseline = zip(*pairs, strict=True)
    found = compare_paired(means(arm), means(baseline), len(pairs))
    assert found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None
    assert -1 <= found.ratio_low <= found.ratio_high
    assert found.ratio == pytest.approx(sum(arm) / sum(baseline) - 1)


def test_a_ratio_is_not_the_difference_over_one_baseline() -> None:
    """With one slow round of the baseline a difference may be more than the baseline's mean."""
    baseline = [10, 10, 10, 10, 1000]
    found = compare_paired(means([5, 5, 5, 5, 50]), means(baseline), 5)
    assert found.low is not None and found.low < -found.baseline
    assert found.ratio_low is not None and found.ratio_low > -0.96
    assert found.ratio_high == pytest.approx(-0.5)


def test_too_few_rounds_have_no_interval() -> None:
    found = compare_paired(means([3, 3, 3, 3]), means([5, 5, 5, 5]), MIN_ROUNDS - 1)
    assert found.difference == -2
    assert found.ratio == pytest.approx(-0.4)
    assert [found.low, found.high, found.ratio_low, found.ratio_high] == [None] * 4


def test_there_is_no_ratio_to_nothing() -> None:
    nothing = compare_paired(means([3] * 5), means([0] * 5), 5)
    assert (nothing.low, nothing.high) == (3, 3)
    assert [nothing.ratio, nothing.ratio_low, nothing.ratio_high] == [None] * 3
    # Some resamples have the last round only.
    hardly = compare_paired(means([3] * 5), means([0, 0, 0, 0, 5]), 5)
    assert [hardly.ratio, hardly.ratio_low, hardly.ratio_high] == [2, None, None]


def test_a_comparison_is_a_value() -> None:
    found = compare_paired(means([3] * 5), means([5] * 5), 5)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(found, "low", 0.0)  # noqa: B010  # mypy knows better
