"""Floats as the servers and the switch add them: int32 in units of 1 / scale, two's complement.

Rounding is to the nearest unit: a value is wrong by half a unit at most, a sum of n pushes by n / 2 units.
What comes back is float32, which is exact up to 2^24 units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LEAST, _MOST = -(2**31), 2**31 - 1


def to_fixed(values: NDArray[np.float32], scale: float) -> tuple[NDArray[np.uint32], int]:
    """Units of finite values, as uint32; and how many did not fit, and became the largest that do."""
    units = np.multiply(values, scale, dtype=np.float64)
    np.rint(units, out=units)
    saturated = 0
    if units.size and (units.max() > _MOST or units.min() < _LEAST):
        saturated = int(np.count_nonzero((units > _MOST) | (units < _LEAST)))
        np.clip(units, _LEAST, _MOST, out=units)
    return units.astype(np.int32).view(np.uint32), saturated


def from_fixed(units: NDArray[np.uint32], scale: float) -> NDArray[np.float32]:
    """Values of units."""
    return (units.view(np.int32) / scale).astype(np.float32)
