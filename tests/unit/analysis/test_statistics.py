"""Compare paired differences with values computed by hand, and check the coverage of intervals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from analysis.statistics import (
    MIN_ROUNDS,
    SUBSETS,
    compare_paired,
    compare_unpaired,
    interval,
    min_rounds,
    subsets,
)

positive = st.floats(0.01, 100)


def test_a_difference_and_its_interval_are_of_geometric_means() -> None:
    """All rounds are equal but one of twice the size; the bounds are subsets without it, and it alone."""
    found = compare_paired(np.array([5.0, 5, 5, 5, 5, 10]), np.full(6, 10.0))
    mean = 5 * 2 ** (1 / 6)
    assert (found.reference, found.value, found.difference) == pytest.approx((10, mean, mean - 10))
    assert found.ratio == pytest.approx(mean / 10 - 1)
    assert (found.ratio_low, found.ratio_high) == pytest.approx((-0.5, 0))
    assert (found.low, found.high) == pytest.approx((-5, 0))
    assert found.half_width == pytest.approx(0.25)


def test_subsets_are_all_or_a_random_sample() -> None:
    assert subsets(2).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert len({tuple(row) for row in subsets(12).tolist()}) == len(subsets(12)) == 2**12 - 1 == SUBSETS
    many = subsets(40)
    assert many.shape == (SUBSETS, 40)
    assert set(np.unique(many)) == {0, 1} and many.any(axis=1).all()
    assert many.mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("sizes", "outside"),
    [
        # Of 64, 128 and 1,024 gaps between typical values 1, 3 and 25 are left out at each end.
        ([1.0, 2, 4, 8, 16, 32], 2 / 64),
        ([0.1, 0.1, 50, 0.2, 3, 7, 1000], 6 / 128),
        ([1.0, 1.1, 1.21, 1.33, 1.46, 1.61, 1.77, 1.95, 2.14, 2.36], 50 / 1024),
    ],
)
def test_coverage_depends_on_the_signs_alone(sizes: list[float], outside: float) -> None:
    """Over all signs of skewed null differences, the number of intervals without 0 is exact."""
    left_out = 0
    for signs in product((-1, 1), repeat=len(sizes)):
        low, high = interval(np.array(signs) * np.array(sizes))
        left_out += low > 0 or high < 0
    assert left_out / 2 ** len(sizes) == pytest.approx(outside)


def test_pairing_removes_effects_of_a_round_on_both_arms() -> None:
    round_effects = np.random.default_rng(1).uniform(1, 1000, 20)
    found = compare_paired(0.9 * round_effects, round_effects)
    assert (found.ratio, found.ratio_low, found.ratio_high) == pytest.approx((-0.1,) * 3)


def test_a_slow_round_counts_as_much_as_any_other_round() -> None:
    typical = compare_paired(np.full(20, 90.0), np.full(20, 100.0))
    slow = np.array([1e6, *[90.0] * 19]), np.array([1e6 / 0.9, *[100.0] * 19])
    assert compare_paired(*slow).ratio == pytest.approx(typical.ratio)


@given(st.lists(st.tuples(positive, positive), min_size=MIN_ROUNDS, max_size=9))
def test_bounds_enclose_the_estimate_and_are_at_least_minus_one(
    pairs: list[tuple[float, float]],
) -> None:
    arm, baseline = np.array(pairs).T
    found = compare_paired(arm, baseline)
    assert found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None
    assert -1 <= found.ratio_low <= found.ratio + 1e-9 and found.ratio <= found.ratio_high + 1e-9
    assert found.low == pytest.approx(found.ratio_low * found.reference)
    assert found.high == pytest.approx(found.ratio_high * found.reference)


sizes_or_zero = st.one_of(st.just(0.0), st.floats(0.01, 100))


@given(st.lists(st.tuples(sizes_or_zero, sizes_or_zero), min_size=MIN_ROUNDS, max_size=9))
@example([(0.0, 3.0)] * 5 + [(0.0, 0.0)])
@example([(0.0, 3.0)] * 5 + [(0.0, 7.0)])
@example([(0.0, 3.0), (2.0, 0.0)] * 3)
@example([(0.0, 0.0)] * 6)
@example([(3.0, 0.0)] * 6)
def test_no_ratio_leaves_its_range_and_only_a_baseline_of_0_has_no_ratio(
    pairs: list[tuple[float, float]],
) -> None:
    arm, baseline = np.array(pairs).T
    for found in (compare_paired(arm, baseline), compare_unpaired(arm, baseline)):
        assert (found.ratio is None) == (not baseline.any())
        assert (found.ratio_low is None) == (found.ratio_high is None) == (not baseline.any())
        if found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None:
            assert -1 <= found.ratio_low <= found.ratio_high < math.inf
            assert -1 <= found.ratio <= found.ratio_high + 1e-9
            if not arm.any():
                assert (found.ratio_low, found.ratio, found.ratio_high) == (-1, -1, -1)
    # The ratio's interval and the difference's claim the same.
    found = compare_paired(arm, baseline)
    if found.ratio_low is not None and found.ratio_high is not None and baseline.all():
        margin = 1e-9
        assert not (found.ratio_low > margin and found.sign <= 0)
        assert not (found.ratio_high < -margin and found.sign >= 0)


@pytest.mark.parametrize("zeros", [1, 3, 6])
def test_an_interval_of_rounds_with_0_covers_the_ratio(zeros: int) -> None:
    """Each round is 0 or a multiple of its baseline, which is as often below the true ratio as above it."""
    ratio, sizes = 0.4, np.array([3.0, 5, 8, 13, 21, 34])
    left_out = 0
    for signs in product((-1, 1), repeat=len(sizes)):
        shares = np.where(np.arange(len(sizes)) < zeros, ratio, 0.25 * ratio)
        arm = sizes * (ratio + np.array(signs) * shares)
        found = compare_paired(arm, sizes)
        if (arm > 0).all():
            continue  # no round is 0, so means are geometric
        assert found.ratio_low is not None and found.ratio_high is not None
        left_out += not found.ratio_low <= ratio - 1 + 1e-12 or not ratio - 1 <= found.ratio_high + 1e-12
    # Of 64 gaps between typical values one is left out at each end: those of equal signs.
    assert left_out <= 2


@given(st.lists(st.tuples(positive, positive), min_size=MIN_ROUNDS, max_size=9))
def test_swapped_arms_mirror_the_interval(pairs: list[tuple[float, float]]) -> None:
    arm, baseline = np.array(pairs).T
    forward, reverse = compare_paired(arm, baseline), compare_paired(baseline, arm)
    assert forward.ratio is not None and forward.ratio_low is not None and forward.ratio_high is not None
    assert reverse.ratio is not None and reverse.ratio_low is not None and reverse.ratio_high is not None
    assert (1 + forward.ratio) * (1 + reverse.ratio) == pytest.approx(1)
    assert (1 + forward.ratio_low) * (1 + reverse.ratio_high) == pytest.approx(1)
    assert (1 + forward.ratio_high) * (1 + reverse.ratio_low) == pytest.approx(1)


def test_too_few_rounds_have_no_interval() -> None:
    found = compare_paired(np.full(MIN_ROUNDS - 1, 3.0), np.full(MIN_ROUNDS - 1, 5.0))
    assert found.difference == pytest.approx(-2)
    assert found.ratio == pytest.approx(-0.4)
    assert [found.low, found.high, found.ratio_low, found.ratio_high, found.half_width] == [None] * 5


@pytest.mark.parametrize(("alpha", "rounds"), [(0.05, 6), (0.02, 7), (0.01, 8)])
def test_a_smaller_error_rate_needs_more_rounds(alpha: float, rounds: int) -> None:
    assert min_rounds(alpha) == rounds
    for count, has_interval in ((rounds - 1, False), (rounds, True)):
        found = compare_paired(np.full(count, 3.0), np.full(count, 5.0), alpha)
        assert (found.half_width is not None) == has_interval


def test_an_interval_at_a_smaller_error_rate_is_wider() -> None:
    shifts = np.random.default_rng(2).normal(0, 1, 12)
    at_5, at_1 = interval(shifts, 0.05), interval(shifts, 0.01)
    assert at_1[0] < at_5[0] < at_5[1] < at_1[1]


def test_means_are_arithmetic_if_a_round_has_zero() -> None:
    found = compare_paired(np.array([0.0, 2, 2, 2, 2, 2]), np.array([2.0, 4, 4, 4, 4, 4]))
    assert (found.reference, found.value) == pytest.approx((22 / 6, 10 / 6))
    assert (found.difference, found.low, found.high) == pytest.approx((-2, -2, -2))
    # The bounds are those of subsets' ratios: of the first round alone, and of others without it.
    assert (found.ratio, found.ratio_low, found.ratio_high) == pytest.approx((-6 / 11, -1, -0.5))


def test_there_is_no_ratio_to_zero() -> None:
    against_zero = compare_paired(np.full(6, 3.0), np.zeros(6))
    assert (against_zero.difference, against_zero.low, against_zero.high) == (3, 3, 3)
    assert [against_zero.ratio, against_zero.ratio_low, against_zero.ratio_high] == [None] * 3


def test_a_comparison_is_immutable() -> None:
    found = compare_paired(np.full(6, 3.0), np.full(6, 5.0))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(found, "low", 0.0)  # noqa: B010  # mypy would reject an assignment
