"""Rows: a job's keys in ranges whose rows have the same number of values, and the banks and lanes of rows.

The switch has `LANES` banks of `QUAD` registers. A row of `dim` values has one of `lanes_of_dim(dim)` lanes,
which its key's hash selects, and takes the same slot of each of the lane's banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import DIMS, LANES, QUAD, lanes_of_dim

MAX_DIM = DIMS[-1]
"""Maximum number of values of a key's row."""


class RowRange(NamedTuple):
    """Rows from `first`, a key or a position, up to the next range."""

    first: int
    dim: int


RowRanges: TypeAlias = tuple[RowRange, ...]
ONE_VALUE: RowRanges = (RowRange(0, 1),)
"""The ranges of a job whose rows all have one value."""


def dims_in(ranges: Sequence[RowRange], places: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the dim of the rows with these keys, or at these positions, [n]; `ranges` begin at 0."""
    dims = np.array([each.dim for each in ranges])
    if len(ranges) == 1:
        return np.full(len(places), dims[0])
    firsts = np.array([each.first for each in ranges], places.dtype)
    result: NDArray[np.int64] = dims[np.searchsorted(firsts, places, side="right") - 1]
    return result


def split_row(values: int, max_dim: int = MAX_DIM) -> tuple[int, int]:
    """Return the number of keys of a row of `values` values, and the dim of each key's row."""
    keys = -(-values // max_dim)
    return keys, -(-values // keys)


def check_dim(dim: int | None) -> int | None:
    """Return a dim that is not too large; raise `ValueError`, which says what to use instead."""
    if dim is not None and dim > MAX_DIM:
        raise ValueError(f"expected at most {MAX_DIM} values, got {dim}; {describe_long_row(dim)}")
    return dim


def describe_long_row(values: int) -> str:
    """Return which keys and which dim stand for a row of more than `MAX_DIM` values."""
    keys, dim = split_row(values)
    return (
        f"a row of {values} values is {keys} keys with rows of up to {dim}: "
        f"take the dim {dim}, and {keys} times as many keys in a step"
    )


def banks_of_row(dim: int) -> int:
    """Return the number of banks in which a row takes a slot."""
    return max(dim, QUAD) // QUAD


def lanes_of_rows(
    keys: NDArray[np.uint64], dims: NDArray[np.integer], lanes: int = LANES
) -> NDArray[np.int64]:
    """Return the lane of each row [n] in a switch with that many lanes for rows of one value."""
    result = np.empty(len(keys), np.int64)
    for dim in np.unique(dims).tolist():
        of_dim = dims == dim
        result[of_dim] = lanes_of(keys[of_dim], max(lanes_of_dim(dim) * lanes // LANES, 1))
    return result


def count_slots(lanes: NDArray[np.integer], dims: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return how many slots rows [n] with these lanes take in each bank [LANES]."""
    counts = np.zeros(LANES, np.int64)
    for dim in np.unique(dims).tolist():
        n_banks = banks_of_row(dim)
        counts += np.bincount(lanes[dims == dim], minlength=LANES // n_banks).repeat(n_banks)[:LANES]
    return counts
