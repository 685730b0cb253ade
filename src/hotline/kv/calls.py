"""Check the arguments of a call, and sort its keys, before anything is queued."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import HotlineError
from hotline.kv.conversion import are_ascending_below, as_contiguous
from topologies.embedding_tables import Table


class InvalidArgument(HotlineError, ValueError):
    """Keys, values or an `out` that cannot be pushed or pulled; nothing was sent."""


class Rows(NamedTuple):
    """Ascending row numbers of a table [n]."""

    keys: NDArray[np.int64]
    order: NDArray[np.intp] | None
    """Index of each row in the caller's keys [n]; None if they were ascending."""


def check_keys(keys: ArrayLike, table: Table) -> Rows:
    """Return the caller's keys [n] in ascending order; raise `InvalidArgument` for invalid ones."""
    array = np.asarray(keys)
    if array.size == 0 and array.ndim == 1:
        return Rows(np.zeros(0, np.int64), None)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(f"table {table.name}: expected integer keys, got {array.dtype}")
    if array.ndim != 1:
        raise InvalidArgument(
            f"table {table.name}: expected keys of one dimension, got the shape {array.shape}"
        )
    rows = as_contiguous(array, np.int64)
    return Rows(rows, None) if are_ascending_below(rows, table.rows) else _sort_keys(array, table)


def _sort_keys(array: NDArray[np.integer], table: Table) -> Rows:
    order = np.argsort(array)
    keys = array[order]
    duplicates = np.flatnonzero(keys[1:] == keys[:-1])
    if duplicates.size:
        position, indices = int(duplicates[0]), sorted(order[duplicates[0] : duplicates[0] + 2].tolist())
        raise InvalidArgument(
            f"table {table.name}: expected distinct keys, "
            f"got {keys[position]} at indices {indices[0]} and {indices[1]}; "
            "add up the values of equal keys before a push"
        )
    # The keys are sorted, so the last and the first are the extremes.
    for position in (-1, 0):
        if not 0 <= int(keys[position]) < table.rows:
            raise InvalidArgument(
                f"table {table.name} has {table.rows:,} rows: expected keys in 0..{table.rows - 1}, "
                f"got {keys[position]} at index {order[position]}"
            )
    return Rows(keys.astype(np.int64), order)


def check_values(values: object, n: int, table: Table) -> NDArray[np.float32]:
    """Return the values of n rows [n, dim], maybe NaN; raise `InvalidArgument` for another type or shape."""
    return _check_array(values, n, table, "values")


def check_finite(values: NDArray[np.float32], table: Table) -> None:
    is_finite = np.isfinite(values)
    if not is_finite.all():
        row, column = map(int, np.argwhere(~is_finite)[0])
        raise InvalidArgument(
            f"table {table.name}: expected finite values, "
            f"got {values[row, column]} at values[{_format_index(row, column, table)}]"
        )


def check_out(out: object, n: int, table: Table) -> NDArray[np.float32]:
    """Return a view of the caller's output array [n, dim]; raise `InvalidArgument` if it does not fit."""
    if not isinstance(out, np.ndarray):
        raise InvalidArgument(f"table {table.name}: expected a NumPy array as out, got {type(out).__name__}")
    if not out.flags.writeable:
        raise InvalidArgument(f"table {table.name}: out cannot be written to")
    return _check_array(out, n, table, "out")


def _check_array(values: object, n: int, table: Table, name: str) -> NDArray[np.float32]:
    array = np.asarray(values)
    if array.dtype != np.float32:
        raise InvalidArgument(f"table {table.name}: expected {name} of float32, got {array.dtype}")
    if array.shape == (n, table.dim):
        return array
    if table.dim == 1 and array.shape == (n,):
        return array[:, None]
    expected = f"({n},) or ({n}, 1)" if table.dim == 1 else f"({n}, {table.dim})"
    raise InvalidArgument(f"table {table.name}: expected {name} of shape {expected}, got {array.shape}")


def _format_index(row: int, column: int, table: Table) -> str:
    return str(row) if table.dim == 1 else f"{row}, {column}"
