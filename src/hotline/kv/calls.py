"""The operations that calls queue, and the checks of a call's arguments before that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import HotlineError
from hotline.kv.conversion import are_ascending_below, as_contiguous
from topologies.embedding_tables import Table


class InvalidArgument(HotlineError, ValueError):
    """Keys, values or an `out` that cannot be pushed or pulled; nothing was sent."""


@dataclass(slots=True)
class Operation:
    """A push, a pull, or both, of the same parameters [n]."""

    positions: NDArray[np.int64]
    deltas: NDArray[np.uint32] | None = None
    """Words to push [n]: units, or words to set if `word_flags` has `SET`."""
    on_values: Callable[[NDArray[np.uint32]], None] | None = None
    """Called with the words pulled [n]."""
    callback: Callable[[], object] | None = None
    is_training: bool = True
    """Whether the operation is part of a step; initialising or reading a whole table is not."""
    step: int = 0
    """Number of pushes to the table before this operation."""
    word_flags: int = 0
    """Flags `SET` and `STATE` of the header, to set words, and to set or pull an optimiser's state."""
    submitted_ns: int = 0  # by the monotonic clock


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


def check_values(values: object, n: int, table: Table, name: str = "values") -> NDArray[np.float32]:
    """Return the values of n rows [n, dim], maybe NaN; raise `InvalidArgument` for another type or shape."""
    array = np.asarray(values)
    if array.dtype != np.float32:
        raise InvalidArgument(f"table {table.name}: expected {name} of float32, got {array.dtype}")
    if array.shape == (n, table.dim):
        return array
    if table.dim == 1 and array.shape == (n,):
        return array[:, None]
    expected = f"({n},) or ({n}, 1)" if table.dim == 1 else f"({n}, {table.dim})"
    raise InvalidArgument(f"table {table.name}: expected {name} of shape {expected}, got {array.shape}")


def check_finite(values: NDArray[np.float32], table: Table) -> None:
    is_finite = np.isfinite(values)
    if not is_finite.all():
        row, column = map(int, np.argwhere(~is_finite)[0])
        index = str(row) if table.dim == 1 else f"{row}, {column}"
        raise InvalidArgument(
            f"table {table.name}: expected finite values, got {values[row, column]} at values[{index}]"
        )


def check_out(out: object, n: int, table: Table) -> NDArray[np.float32]:
    """Return a view of the caller's output array [n, dim]; raise `InvalidArgument` if it does not fit."""
    if not isinstance(out, np.ndarray):
        raise InvalidArgument(f"table {table.name}: expected a NumPy array as out, got {type(out).__name__}")
    if not out.flags.writeable:
        raise InvalidArgument(f"table {table.name}: out cannot be written to")
    return check_values(out, n, table, "out")
