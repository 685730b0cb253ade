"""Records in arrays: the state of compiled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE = 64
"""Bytes that caches fetch together."""


def record(*fields: Any) -> np.dtype[Any]:
    """A dtype of `(name, type[, shape])` fields; a bare name is a signed 64-bit integer.

    Raises `ValueError` for a name that numpy's records have themselves: plain Python would read that.
    """
    whole = [(field, np.int64) if isinstance(field, str) else field for field in fields]
    return checked(np.dtype(whole))


def checked(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype, if plain Python can read all of its fields as attributes; else `ValueError`."""
    taken = [name for name in dtype.names or () if hasattr(np.record, name)]
    if taken:
        raise ValueError(f"fields {', '.join(taken)}: numpy's records have attributes of these names")
    return dtype


def records(shape: int | Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array of records, all 0; to type checkers anything, since fields are attributes."""
    return zeros(shape, dtype).view(np.recarray)


def zeros(shape: int | Sequence[int], dtype: Any) -> NDArray[Any]:
    """An array of zeros that begins where a line of the caches does: a record of a line is then in one."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    octets = np.zeros(size + LINE - 1, np.uint8)
    start = -octets.ctypes.data % LINE
    made: NDArray[Any] = octets[start : start + size].view(kind).reshape(shape)
    return made
