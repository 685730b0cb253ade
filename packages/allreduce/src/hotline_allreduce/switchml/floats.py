"""Block floating point: a chunk's floats as 32-bit integers, with a scale that all workers share.

The exponent e of a chunk is the smallest with all values below 2^e; workers agree on the largest of their
exponents. As in p4lang/p4app-switchML's `cpu_exponent_quantizer_ppp.cc`, in single precision. Two things
differ at the edges: where p4app-switchML's scale overflows to infinity (chunks below about 2^-97), this scale
is the largest float; and no integer exceeds INT32_MAX / n, so that no sum of n integers overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled, int64

MIN_EXPONENT, MAX_EXPONENT = -126, 127
INT32_MAX = 2**31 - 1
MAX_FLOAT32 = float(np.finfo(np.float32).max)


@compiled
def chunk_exponent(floats: NDArray[np.float32], first: int, count: int) -> int:
    """Return the smallest e >= -126 with all `count` values from `first` on below 2^e; values are < 2^127."""
    magnitude = 0.0
    for i in range(first, first + count):
        magnitude = max(magnitude, abs(float(floats[i])))
    _, exponent = math.frexp(magnitude)
    return max(int64(exponent), MIN_EXPONENT) if magnitude > 0.0 else MIN_EXPONENT


@compiled
def scale_of(exponent: int, workers: int) -> float:
    return float(np.float32(min(INT32_MAX / (workers * 2.0**exponent), MAX_FLOAT32)))


@compiled
def as_integer(value: float, scale: float, workers: int) -> int:
    """Return a scaled value, rounded half away from 0."""
    scaled = float(np.float32(value) * np.float32(scale))
    limit = INT32_MAX // workers
    rounded = min(int64(math.floor(abs(scaled) + 0.5)), limit)
    return -rounded if scaled < 0.0 else rounded


@compiled
def as_float(total: int, scale: float) -> float:
    """Return the float that a sum of scaled integers represents; infinity above `MAX_FLOAT32`."""
    return float(np.float32(total) / np.float32(scale))


def error_bound(exponent: int, workers: int, size: float) -> float:
    """Return the largest error of a sum whose addends have absolute values that add up to `size`.

    Each addend is rounded to a multiple of 1 / scale; its product with the scale, the sum and its quotient
    are rounded to 24 bits, and results below 2^-126 to fewer.
    """
    scale = float(np.float32(min(INT32_MAX / (workers * 2.0**exponent), MAX_FLOAT32)))
    # Clipping to INT32_MAX // n can change a value next to 2^e by a rounding error of its product.
    # 2^-24 is the unit roundoff of float32, and 2^-149 its smallest number above 0.
    return (0.5 + 2.0**-24 * INT32_MAX / workers + 1) * workers / scale + 2.0**-22 * size + 2.0**-149
