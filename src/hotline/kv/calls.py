"""What a caller gives, checked and put in order before anything is queued."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotline.kv.errors import Wrong
from hotline.kv.loops import are_ascending, loopable
from topologies.embedding_tables import Table


class Rows(NamedTuple):
    """Rows of a table, ascending."""

    keys: NDArray[np.int64]
    order: NDArray[np.intp] | None
    """Where each was in the caller's keys [n]; None where they were ascending."""


def check_keys(keys: Any, table: Table) -> Rows:
    """The caller's keys [n] in order; raises `Wrong` for what is no key, or there twice."""
    found = np.asarray(keys)
    if found.size == 0 and found.ndim == 1:
        return Rows(np.zeros(0, np.int64), None)
    if found.dtype.kind not in "iu":
        raise Wrong(f"table {table.name}: keys are {found.dtype}; integers are right")
    if found.ndim != 1:
        raise Wrong(f"table {table.name}: keys have the shape {found.shape}; one dimension is right")
    rows = loopable(found, np.int64)
    return Rows(rows, None) if are_ascending(rows, table.rows) else _sorted(found, table)


def _sorted(found: NDArray[np.integer[Any]], table: Table) -> Rows:
    order = np.argsort(found)
    keys = found[order]
    again = np.flatnonzero(keys[1:] == keys[:-1])
    if again.size:
        at, twice = int(again[0]), sorted(order[again[0] : again[0] + 2].tolist())
        raise Wrong(
            f"table {table.name}: key {keys[at]} is there twice, at {twice[0]} and {twice[1]}; "
            "add up what you push to it"
        )
    for at in (-1, 0):
        if not 0 <= int(keys[at]) < table.rows:
            raise Wrong(
                f"table {table.name}: key {keys[at]}, at {order[at]}, is not in 0..{table.rows - 1}: "
                f"it has {table.rows:,} rows"
            )
    return Rows(keys.astype(np.int64), order)


def check_values(values: Any, n: int, table: Table) -> NDArray[np.float32]:
    """The caller's values of n rows [n, dim], which may yet be NaN; raises `Wrong`."""
    return _shaped(values, n, table, "values")


def check_finite(values: NDArray[np.float32], table: Table) -> None:
    """Raise `Wrong` for the first value that is not."""
    finite = np.isfinite(values)
    if not finite.all():
        row, column = map(int, np.argwhere(~finite)[0])
        raise Wrong(
            f"table {table.name}: values[{_place(row, column, table)}] is {values[row, column]}; "
            "finite values are right"
        )


def check_out(out: Any, n: int, table: Table) -> NDArray[np.float32]:
    """Where n rows are to be put [n, dim], a view of the caller's array; raises `Wrong`."""
    if not isinstance(out, np.ndarray):
        raise Wrong(f"table {table.name}: out is of {type(out).__name__}; a NumPy array is right")
    if not out.flags.writeable:
        raise Wrong(f"table {table.name}: out cannot be written to")
    return _shaped(out, n, table, "out")


def _shaped(array: Any, n: int, table: Table, name: str) -> NDArray[np.float32]:
    found = np.asarray(array)
    if found.dtype != np.float32:
        raise Wrong(f"table {table.name}: {name} are {found.dtype}; float32 is right")
    if found.shape == (n, table.dim):
        return found
    if table.dim == 1 and found.shape == (n,):
        return found[:, None]
    right = f"({n},) or ({n}, 1)" if table.dim == 1 else f"({n}, {table.dim})"
    raise Wrong(f"table {table.name}: {name} have the shape {found.shape}; {right} is right")


def _place(row: int, column: int, table: Table) -> str:
    return str(row) if table.dim == 1 else f"{row}, {column}"
