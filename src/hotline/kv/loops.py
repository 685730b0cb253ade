"""What is done to each key and value of a call, as machine code: one pass, and no copy between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nativekit.compile import cached_entry_point, int64

NOT_FINITE = -1

F = TypeVar("F", bound=Callable[..., Any])
_FILE = Path(__file__)


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    return cached_entry_point(function, _FILE.parent, [_FILE])


def loopable(array: Any, dtype: type) -> Any:
    """Itself where loops take it as it is, or else a copy: each kind of array is machine code of its own."""
    if array.dtype == dtype and array.flags.carray and type(array) is np.ndarray:
        return array
    return np.array(array, dtype, order="C", subok=False)


@entry_point
def are_ascending(keys: Any, rows: int) -> bool:
    """Whether keys int64[n] are those of `rows` rows, each once, in their order."""
    ascending, before = True, int64(-1)
    for k in range(len(keys)):
        ascending &= keys[k] > before
        before = keys[k]
    return ascending and before < rows


@entry_point
def to_units(values: Any, scale: float, units: Any) -> int:
    """Units int32[n] of values float32[n]; how many saturated, or NOT_FINITE. No branches, so by vectors."""
    least, most = -(2.0**31), 2.0**31 - 1
    is_finite, saturated = True, int64(0)
    for k in range(len(units)):
        value = values[k]
        is_finite &= value - value == 0
        found = np.rint(np.float64(value) * scale)
        saturated += (found > most) | (found < least)
        found = found if found < most else most
        units[k] = np.int32(found if found > least else least)
    return saturated if is_finite else NOT_FINITE


@entry_point
def of_units(units: Any, scale: float, values: Any) -> None:
    """The other way: units int32[n] into values float32[n]."""
    for k in range(len(values)):
        values[k] = units[k] / scale


def warm() -> None:
    """Load the machine code, or make it."""
    values, units = np.zeros(1, np.float32), np.zeros(1, np.int32)
    are_ascending(np.zeros(1, np.int64), 1)
    to_units(values, 1.0, units)
    of_units(units, 1.0, values)
