"""A job's rows as positions 0..n-1 of 64-bit keys; arrays have one more element, for all other keys.

All rows of a range of positions have the same number of values, their dim. The values of all rows, one row
after the other, are the value space, in which ledgers and logs have their sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.checksums import crc32_of
from foundation.protocol.header import DIMS, NO_KEY
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges, dims_in
from hosts.agent_config import AgentConfigError
from nativekit.compile import compiled
from nativekit.records import Records, records

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Keys 0..size-1, or the sorted keys `sparse` [size]; `ranges` are in order, the first begins at 0."""

    size: int
    sparse: NDArray[np.uint64] | None = None
    ranges: RowRanges = ONE_VALUE

    def __post_init__(self) -> None:
        firsts = [each.first for each in self.ranges]
        if firsts[:1] != [0] or any(following <= first for first, following in pairwise(firsts)):
            raise AgentConfigError(f"ranges of rows: expected ascending positions from 0, got {firsts}")
        for each in self.ranges:
            if each.dim not in DIMS:
                raise AgentConfigError(
                    f"dim of the rows from {each.first}: expected one of {DIMS}, got {each.dim}"
                )

    @staticmethod
    def load(path: Path, checksum: int, ranges: RowRanges = ONE_VALUE) -> KeySpace:
        """Map a sparse key space, a .npy file of sorted, distinct uint64 keys; raise `AgentConfigError`.

        `checksum` is `crc32_of` the file when it was written.
        """
        try:
            if (found := crc32_of(path)) != checksum:
                raise ValueError(f"damaged: expected a file with CRC-32 {checksum:08x}, got {found:08x}")
            keys = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise AgentConfigError(f"{path}: cannot be read as an array of keys: {error}") from error
        if keys.dtype != np.uint64 or keys.ndim != 1 or bool(np.any(keys[1:] <= keys[:-1])):
            raise AgentConfigError(
                f"{path}: expected a 1-D array of sorted, distinct uint64 keys, got {keys.dtype}{keys.shape}"
            )
        return KeySpace(len(keys), keys, ranges)

    def positions(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the position of each key [n]; `size` for a key outside the space."""
        if self.sparse is None:
            positions_of_dense: NDArray[np.int64] = np.minimum(keys, np.uint64(self.size)).astype(np.int64)
            return positions_of_dense
        positions = np.searchsorted(self.sparse, keys)
        positions[self.sparse.take(positions, mode="clip") != keys] = self.size
        return positions

    def keys(self, positions: NDArray[np.integer]) -> NDArray[np.uint64]:
        if self.sparse is None:
            return positions.astype(np.uint64)
        keys: NDArray[np.uint64] = self.sparse[positions]
        return keys

    def all(self) -> NDArray[np.uint64]:
        return np.arange(self.size, dtype=np.uint64) if self.sparse is None else np.asarray(self.sparse)

    def restrict(self, positions: NDArray[np.integer]) -> KeySpace:
        """Return the space of the rows at these ascending positions, whose keys and dims are unchanged."""
        firsts = np.searchsorted(positions, [each.first for each in self.ranges]).tolist()
        ranges = {first: each.dim for first, each in zip(firsts, self.ranges, strict=True)}
        ranges = {first: dim for first, dim in ranges.items() if first < len(positions) or not first}
        return KeySpace(len(positions), self.keys(positions), tuple(map(RowRange._make, ranges.items())))

    @property
    def dims(self) -> tuple[int, ...]:
        """The distinct dims, in ascending order."""
        return tuple(sorted({each.dim for each in self.ranges}))

    @property
    def n_values(self) -> int:
        """Number of values of all rows."""
        return int(self.first_values(np.array([self.size]))[0])

    def dims_at(self, positions: NDArray[np.integer]) -> Indices:
        """Return the dim of the row at each position [n]."""
        return dims_in(self.ranges, positions)

    @property
    def key_ranges(self) -> RowRanges:
        """The ranges by their first keys; the first begins at 0."""
        table = key_ranges(self)
        firsts = [0, *table.first_key[1:].tolist()]
        return tuple(RowRange(first, each.dim) for first, each in zip(firsts, self.ranges, strict=True))

    def first_values(self, positions: NDArray[np.integer]) -> Indices:
        """Return the place of each row's first value in the value space [n]."""
        if len(self.ranges) == 1:
            return positions.astype(np.int64) * self.ranges[0].dim
        table, indices = key_ranges(self), self._range_indices(positions)
        values_before = table.first_value - table.first * table.dim
        result: Indices = values_before[indices] + positions * table.dim[indices]
        return result

    def positions_of(self, first: NDArray[np.integer]) -> Indices:
        """Return the position of the row with its first value at each place [n]: `first_values` inverted."""
        table = key_ranges(self)
        indices = np.searchsorted(table.first_value, first, side="right") - 1
        result: Indices = table.first[indices] + (first - table.first_value[indices]) // table.dim[indices]
        return result

    def count_values(self, positions: NDArray[np.integer]) -> int:
        """Return the number of values of these rows."""
        if len(self.ranges) == 1:
            return len(positions) * self.ranges[0].dim
        return int(self.dims_at(positions).sum())

    def value_places(self, positions: NDArray[np.integer]) -> Indices:
        """Return the places of all values of these rows [n], one row after the other."""
        first = self.first_values(positions)
        if len(self.ranges) == 1:
            return np.add.outer(first, np.arange(self.ranges[0].dim)).ravel()
        return places_of_rows(first, self.dims_at(positions))

    def _range_indices(self, positions: NDArray[np.integer]) -> Indices:
        return np.searchsorted([each.first for each in self.ranges], positions, side="right") - 1


def places_of_rows(first: NDArray[np.integer], lengths: NDArray[np.integer]) -> Indices:
    """Return `first[i]`, `first[i]` + 1, ... of `lengths[i]` values each, for all i: [sum of lengths]."""
    ends = np.cumsum(lengths)
    n_values = int(ends[-1]) if len(ends) else 0
    places: Indices = np.arange(n_values) + np.repeat(first - ends + lengths, lengths)
    return places


class KeyRange:
    """A range of rows in compiled code."""

    first: int  # position of its first row
    first_key: np.uint64
    dim: int
    first_value: int  # place of its first value in the value space


def key_ranges(space: KeySpace) -> Records[KeyRange]:
    table = records(len(space.ranges), KeyRange)
    first_value = 0
    for k, (row, each) in enumerate(zip(table, space.ranges, strict=True)):
        row.first, row.dim, row.first_value = each.first, each.dim, first_value
        row.first_key = np.uint64(each.first) if space.sparse is None else _key_at(space.sparse, each.first)
        end = space.ranges[k + 1].first if k + 1 < len(space.ranges) else space.size
        first_value += (end - each.first) * each.dim
    return table


def _key_at(keys: NDArray[np.uint64], position: int) -> np.uint64:
    # A range may be empty, as that of a table from which a trace has no row.
    return np.uint64(keys[position] if position < len(keys) else NO_KEY)


@compiled
def range_at(ranges: Records[KeyRange], position: int) -> int:
    """Return the index of the range with the row at `position`."""
    low, high = 0, len(ranges) - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if ranges[middle].first <= position:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def first_value_at(ranges: Records[KeyRange], position: int) -> int:
    each = ranges[range_at(ranges, position)]
    return each.first_value + (position - each.first) * each.dim
