"""Compiled passes over a call's arrays: order of the keys, and float32 to fixed point and back.

Servers and switch add int32 in units of 1 / scale, in two's complement. Rounding is to the nearest unit: a
value is off by at most half a unit, a sum of n pushes by n / 2 units. Pulled values are float32, which is
exact up to 2^24 units.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import cached_entry_point, int64
from nativekit.records import Ints

Floats = NDArray[np.float32]
Units = NDArray[np.int32]

NOT_FINITE = -1
"""Returned instead of a count if a value is infinite or NaN."""

F = TypeVar("F", bound=Callable[..., object])
S = TypeVar("S", bound=np.generic)
_FILE = Path(__file__)


def entry_point(function: F) -> F:
    return cached_entry_point(function, _FILE.parent, [_FILE])


def as_contiguous(array: NDArray[np.generic], dtype: type[S]) -> NDArray[S]:
    """Return the array if it is C-contiguous, or else a copy: every other layout would be compiled anew."""
    if array.dtype == dtype and array.flags.carray and type(array) is np.ndarray:
        return cast("NDArray[S]", array)
    return np.array(array, dtype, order="C", subok=False)


@entry_point
def are_ascending_below(keys: Ints, rows: int) -> bool:
    """Return whether keys int64[n] are ascending, without duplicates, and below `rows`."""
    is_ascending, previous = True, int64(-1)
    for k in range(len(keys)):
        is_ascending &= keys[k] > previous
        previous = keys[k]
    return is_ascending and previous < rows


@entry_point
def to_units(values: Floats, scale: float, units: Units) -> int:
    """Convert float32[n] to units int32[n], clipped; return the number clipped, or NOT_FINITE."""
    smallest, largest = -(2.0**31), 2.0**31 - 1
    is_finite, clipped_count = True, int64(0)
    for k in range(len(units)):  # without branches
        value = values[k]
        is_finite &= value - value == 0  # NaN for infinities and NaN
        rounded = np.rint(np.float64(value) * scale)
        clipped_count += (rounded > largest) | (rounded < smallest)
        rounded = rounded if rounded < largest else largest
        units[k] = np.int32(rounded if rounded > smallest else smallest)
    return clipped_count if is_finite else NOT_FINITE


@entry_point
def from_units(units: Units, scale: float, values: Floats) -> None:
    """Convert units int32[n] to float32[n]."""
    for k in range(len(values)):
        values[k] = units[k] / scale


def to_fixed(values: NDArray[np.float32], scale: float) -> tuple[NDArray[np.uint32], int]:
    """Return values [n, dim] in units [n * dim], clipped to int32, and the number clipped or NOT_FINITE."""
    units = np.empty(values.size, np.int32)
    clipped_count = to_units(as_contiguous(values, np.float32).reshape(-1), scale, units)
    return units.view(np.uint32), clipped_count


def from_fixed(units: NDArray[np.uint32], scale: float, out: NDArray[np.float32]) -> None:
    """Write the values of units [n * dim] into `out` [n, dim]."""
    values = as_contiguous(out, np.float32)
    from_units(units.view(np.int32), scale, values.reshape(-1))
    if values is not out:
        out[...] = values


def compile_all() -> None:
    values, units = np.zeros(1, np.float32), np.zeros(1, np.int32)
    are_ascending_below(np.zeros(1, np.int64), 1)
    to_units(values, 1.0, units)
    from_units(units, 1.0, values)
