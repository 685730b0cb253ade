"""Floats as the servers and the switch add them: int32 in units of 1 / scale, two's complement.

Rounding is to the nearest unit: a value is wrong by half a unit at most, a sum of n pushes by n / 2 units.
What comes back is float32, which is exact up to 2^24 units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotline.kv.loops import loopable, of_units, to_units


def to_fixed(values: NDArray[np.float32], scale: float) -> tuple[NDArray[np.uint32], int]:
    """Units [n * dim] of values [n, dim]; how many did not fit, or NOT_FINITE where not all are numbers.

    What did not fit has become the largest that does.
    """
    units = np.empty(values.size, np.int32)
    saturated = to_units(loopable(values, np.float32).reshape(-1), scale, units)
    return units.view(np.uint32), saturated


def from_fixed(units: NDArray[np.uint32], scale: float, out: NDArray[np.float32]) -> None:
    """Write values of units [n * dim] into `out` [n, dim]."""
    values = loopable(out, np.float32)
    of_units(units.view(np.int32), scale, values.reshape(-1))
    if values is not out:
        out[...] = values
