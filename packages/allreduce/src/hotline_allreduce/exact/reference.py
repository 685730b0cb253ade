"""Correctly rounded sums by exact rationals, which the design is checked against."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_MANTISSA_BITS, _MIN_POWER = 24, -149


def correctly_rounded_sum(addends: Sequence[np.float32] | NDArray[np.float32]) -> np.float32:
    """Return the exact sum, rounded once to nearest with ties to even.

    The sum is NaN if an addend is, or if there are infinities of both signs, and -0 only if all addends are.
    """
    values = [float(addend) for addend in addends]
    not_finite = {value for value in values if not np.isfinite(value)}
    if not_finite:
        return np.float32(not_finite.pop() if len(not_finite) == 1 else np.nan)
    if all(value == 0 and np.signbit(value) for value in values):
        return np.float32(-0.0)
    return round_to_float32(sum(map(Fraction, values), Fraction(0)))


def round_to_float32(number: Fraction) -> np.float32:
    if number == 0:
        return np.float32(0)
    power = _floor_of_log2(abs(number)) - _MANTISSA_BITS + 1
    unit = Fraction(2) ** max(power, _MIN_POWER)
    nearest = round(number / unit) * unit  # ties to even
    if abs(nearest) >= Fraction(2) ** 128:
        return np.float32(np.inf if number > 0 else -np.inf)
    return np.float32(float(nearest))


def _floor_of_log2(number: Fraction) -> int:
    estimate = number.numerator.bit_length() - number.denominator.bit_length()
    return estimate if number >= Fraction(2) ** estimate else estimate - 1


def correctly_rounded_sums(
    vectors: Sequence[NDArray[np.float32]] | NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return the sums [n] of vectors [addends, n]; by float64 where that is exact, else by rationals."""
    columns = np.asarray(vectors, np.float32)
    totals = np.zeros(columns.shape[1])
    is_exact = np.ones(columns.shape[1], np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        for row in columns.astype(np.float64):
            new_totals = totals + row
            # The error of an addition (Knuth's TwoSum) is 0 if and only if the addition is exact.
            part = new_totals - totals
            is_exact &= (totals - (new_totals - part)) + (row - part) == 0
            totals = new_totals
        sums = totals.astype(np.float32)
    for i in np.flatnonzero(~is_exact | (totals == 0)):
        sums[i] = correctly_rounded_sum(columns[:, i])
    return sums
