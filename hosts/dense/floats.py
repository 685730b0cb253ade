"""float32 sums: each addition is rounded to the nearest, in whatever order.

n addends take n - 1 additions, so a sum is within γ(n-1) of the exact one, times the absolute addends
together (Higham, *Accuracy and Stability of Numerical Algorithms*, §4.2). Sums below 2^-126 are exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-24
"""Unit roundoff of float32."""
MOST_EXPONENT = 127


def most_of(workers: int) -> float:
    """What absolute addends of so many workers have to be below, so that no sum overflows."""
    return float(2.0**MOST_EXPONENT / workers)


def error_bound(workers: int, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much sums may be off, where the absolute values of the addends add up to `sizes`, [n] each."""
    k = (workers - 1) * UNIT
    bound: NDArray[np.float64] = k / (1 - k) * sizes
    return bound
