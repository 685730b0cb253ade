"""Correctly rounded sums by exact integers and rationals, which the design is checked against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_MANTISSA_BITS, _MIN_POWER, _MAX_EXPONENT = 24, -149, 128
_UNITS = 2**-_MIN_POWER  # in 1; every finite float32 is a whole number of units


def correctly_rounded_sum(addends: Sequence[np.float32] | NDArray[np.float32]) -> np.float32:
    """Return the exact sum, rounded once to nearest with ties to even.

    The sum is NaN if an addend is, or if there are infinities of both signs, and -0 only if all addends are.
    """
    values = [float(addend) for addend in addends]
    not_finite = {value for value in values if not math.isfinite(value)}
    if not_finite:
        return np.float32(not_finite.pop() if len(not_finite) == 1 else np.nan)
    if all(value == 0 and math.copysign(1, value) < 0 for value in values):
        return np.float32(-0.0)
    # A float64 has the exponents that a float32 needs after this exact multiplication.
    return round_to_float32(Fraction(sum(int(value * _UNITS) for value in values), _UNITS))


def round_to_float32(number: Fraction) -> np.float32:
    if number == 0:
        return np.float32(0)
    power = max(_floor_of_log2(abs(number)) - _MANTISSA_BITS + 1, _MIN_POWER)
    mantissa = round(_times_power_of_2(number, -power))  # ties to even
    if abs(mantissa).bit_length() + power > _MAX_EXPONENT:
        return np.float32(math.copysign(np.inf, mantissa))
    return np.float32(math.ldexp(mantissa, power))


def _floor_of_log2(number: Fraction) -> int:
    estimate = number.numerator.bit_length() - number.denominator.bit_length()
    return estimate if _times_power_of_2(number, -estimate) >= 1 else estimate - 1


def _times_power_of_2(number: Fraction, power: int) -> Fraction:
    numerator, denominator = number.numerator << max(power, 0), number.denominator << max(-power, 0)
    return Fraction(numerator, denominator)


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
