"""Memory of the switch that rows take, in bytes: registers, and table entries with their key and action.

A table's own overhead, such as empty places of its hash ways or words of SRAM that it fills in part, is the
switch's and not counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import KEY_BYTES, QUAD, VALUE_BYTES, padded_dim

REGISTER_BYTES = VALUE_BYTES
_MATCH_BITS = 16 + 8 + 8 * KEY_BYTES  # of `hot_params` (p4src/hotset/lane_lookup.p4): job, dim and key
_ACTION_BITS = 2 + 16  # one of four actions, and the slot
ENTRY_BYTES = -(-(_MATCH_BITS + _ACTION_BITS) // 8)


class MemoryOfRows(NamedTuple):
    rows: int
    registers: int  # bytes
    entries: int  # bytes

    @property
    def total(self) -> int:
        return self.registers + self.entries

    def __str__(self) -> str:
        return f"{size_text(self.registers)} of registers and {size_text(self.entries)} of table entries"


NO_MEMORY = MemoryOfRows(0, 0, 0)


def memory_of(rows: int, dim: int) -> MemoryOfRows:
    """Return the memory of that many rows of `dim` values, which is padded to a dim of RPCs."""
    return MemoryOfRows(rows, rows * max(padded_dim(dim), QUAD) * REGISTER_BYTES, rows * ENTRY_BYTES)


def memory_of_rows(dims: NDArray[np.integer]) -> MemoryOfRows:
    """Return the memory of rows with these dims of RPCs [n]."""
    return MemoryOfRows(
        len(dims), int(np.maximum(dims, QUAD).sum()) * REGISTER_BYTES, len(dims) * ENTRY_BYTES
    )


def rows_within(size: int, dims: NDArray[np.integer]) -> int:
    """Return how many of the rows with these dims of RPCs [n], in this order, `size` bytes hold."""
    sizes = np.maximum(dims, QUAD).astype(np.int64) * REGISTER_BYTES + ENTRY_BYTES
    return int(np.searchsorted(np.cumsum(sizes), size, side="right"))


def size_text(size: int) -> str:
    """Return a number of bytes with a decimal unit, in three digits."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
