"""Large arrays of zeros, of which a simulation writes a small part."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nativekit.records import zeros

_MIN_MAPPED_BYTES = 1 << 18  # below this, a mapping takes longer than clearing the memory


def sparse_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:  # of any type of elements
    """Return an array of zeros whose pages take neither time nor memory before they are written.

    `np.zeros` clears memory that the process has used before.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _MIN_MAPPED_BYTES:
        return zeros(shape, dtype)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(mapping, np.uint8).view(dtype).reshape(shape)
