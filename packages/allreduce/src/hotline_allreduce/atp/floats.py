"""Floats as integers: multiplied by 10^6 and rounded, in single precision, if they are small enough.

As in in-ATP/ATP's `common/quantize.h` and `client/p4ml_manager.h`: a packet with a value beyond 213 has
floats. Ten workers can add up the integers of other packets without an overflow. Sums of more workers may
saturate; the workers then send floats, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled, int64

SCALE = 1e6  # number of units in 1.0
MAX_MAGNITUDE = 213.0  # of floats that are sent as integers


@compiled
def fit_integer_sums(floats: NDArray[np.float32], first: int, count: int) -> bool:
    magnitude = 0.0
    for i in range(first, first + count):
        magnitude = max(magnitude, abs(float(floats[i])))
    return magnitude <= MAX_MAGNITUDE


@compiled
def as_integer(value: float) -> int:
    """Return a scaled value, rounded half away from 0."""
    scaled = float(np.float32(value) * np.float32(SCALE))
    rounded = int64(math.floor(abs(scaled) + 0.5))
    return -rounded if scaled < 0.0 else rounded


@compiled
def as_float(total: int) -> float:
    return float(np.float32(total) / np.float32(SCALE))
