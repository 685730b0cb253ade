"""The operations that calls queue, and the checks of a call's arguments before that."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import HotlineError
from foundation.text import show
from hotline_scripts.embedding_tables import EmbeddingTable
from hotline_scripts.kv.conversion import are_ascending_below, as_contiguous, from_fixed

_INT64_LIMIT = 1 << 63
_MAX_PATH_BYTES = 4096  # Linux, <linux/limits.h>


class InvalidArgument(HotlineError, ValueError):
    """An argument that a call cannot use; nothing was sent."""


@dataclass(slots=True)
class Operation:
    """A push, a pull, or both, of the same rows [n] of a table, each of its `width` values."""

    positions: NDArray[np.int64]
    table: EmbeddingTable
    deltas: NDArray[np.uint32] | None = None
    """Words to push [n * width]: units, or words to set if `word_flags` has `SET`."""
    on_values: Callable[[NDArray[np.uint32]], None] | None = None
    """Called with the words pulled [n * width]."""
    callback: Callable[[], object] | None = None
    is_training: bool = True
    """Whether the operation is part of a step; initialising or reading a whole table is not."""
    step: int = 0
    """Number of pushes to the table before this operation."""
    word_flags: int = 0
    """Flags `SET` and `STATE` of the header, to set words, and to set or pull an optimiser's state."""
    submitted_ns: int = 0  # by the monotonic clock

    @property
    def width(self) -> int:
        return self.table.width


class Rows(NamedTuple):
    """Ascending row numbers of a table [n]."""

    keys: NDArray[np.int64]
    order: NDArray[np.intp] | None
    """Index of each row in the caller's keys [n]; None if they were ascending."""


def _as_array(argument: object, name: str, table: EmbeddingTable) -> NDArray[Any]:
    """Return an argument as an array; raise `InvalidArgument` for what has no plain values."""
    _refuse_mask(argument, name, table)
    try:
        return np.asarray(argument)
    except Exception as error:  # of nested lists, or of the argument's class
        raise InvalidArgument(
            f"table {table.name}: expected {name} as an array, got {show(argument)}: {error}"
        ) from error


def _refuse_mask(argument: object, name: str, table: EmbeddingTable) -> None:
    if isinstance(argument, np.ma.MaskedArray):
        raise InvalidArgument(
            f"table {table.name}: expected {name} without a mask, got a masked array of {argument.dtype} "
            f"{argument.shape}; use its compressed() or filled(0)"
        )


def _describe_type(argument: object, array: NDArray[Any]) -> str:
    # NumPy makes an array without dimensions, or of objects, of what is no array.
    is_array = array.ndim > 0 and array.dtype != object
    return str(array.dtype) if is_array else f"{show(argument)} ({array.dtype})"


def check_keys(keys: ArrayLike, table: EmbeddingTable) -> Rows:
    """Return the caller's keys [n] in ascending order; raise `InvalidArgument` for invalid ones."""
    array = _as_array(keys, "keys", table)
    if array.size == 0 and array.ndim == 1:
        return Rows(np.zeros(0, np.int64), None)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(f"table {table.name}: expected integer keys, got {_describe_type(keys, array)}")
    if array.ndim != 1:
        raise InvalidArgument(
            f"table {table.name}: expected keys of one dimension, "
            f"got {'the shape' if array.ndim else show(keys)} {array.shape}"
        )
    rows = as_contiguous(array, np.int64)
    return Rows(rows, None) if are_ascending_below(rows, table.rows) else _sort_keys(array, table)


def _sort_keys(array: NDArray[np.integer], table: EmbeddingTable) -> Rows:
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


def check_values(values: object, n: int, table: EmbeddingTable, name: str = "values") -> NDArray[np.float32]:
    """Return the values of n rows [n, dim], maybe NaN; raise `InvalidArgument` for another type or shape."""
    array = _as_array(values, name, table)
    if array.dtype != np.float32:
        raise InvalidArgument(
            f"table {table.name}: expected {name} of float32, got {_describe_type(values, array)}"
        )
    if array.shape == (n, table.dim):
        return array
    if table.dim == 1 and array.shape == (n,):
        return array[:, None]
    expected = f"({n},) or ({n}, 1)" if table.dim == 1 else f"({n}, {table.dim})"
    raise InvalidArgument(f"table {table.name}: expected {name} of shape {expected}, got {array.shape}")


def check_finite(values: NDArray[np.float32], table: EmbeddingTable) -> None:
    is_finite = np.isfinite(values)
    if not is_finite.all():
        row, column = map(int, np.argwhere(~is_finite)[0])
        index = str(row) if table.dim == 1 else f"{row}, {column}"
        raise InvalidArgument(
            f"table {table.name}: expected finite values, got {values[row, column]} at values[{index}]"
        )


def check_out(out: object, n: int, table: EmbeddingTable) -> NDArray[np.float32]:
    """Return a view of the caller's output array [n, dim]; raise `InvalidArgument` if it does not fit."""
    if not isinstance(out, np.ndarray):
        raise InvalidArgument(f"table {table.name}: expected a NumPy array as out, got {show(out)}")
    _refuse_mask(out, "out", table)
    if not out.flags.writeable:
        raise InvalidArgument(
            f"table {table.name}: expected an out that can be written to, "
            f"got a read-only array of {out.dtype} {out.shape}"
        )
    return check_values(out, n, table, "out")


def make_pull_handler(
    target: EmbeddingTable, rows: Rows, out: NDArray[np.float32]
) -> Callable[[NDArray[np.uint32]], None]:
    """Return a function that writes pulled words of ascending, padded rows into `out` [n, dim]."""

    def write_rows(words: NDArray[np.uint32]) -> None:
        units = target.strip(words)
        sorted_rows = out if rows.order is None else np.empty(out.shape, np.float32)
        if target.optimiser is None:
            from_fixed(units, target.scale, sorted_rows)
        else:
            sorted_rows[...] = units.view(np.float32).reshape(out.shape)
        if sorted_rows is not out:
            out[rows.order] = sorted_rows

    return write_rows


def row_chunks(target: EmbeddingTable, max_values: int) -> list[Rows]:
    """Return all rows of a table, in parts of at most `max_values` values or one row."""
    rows_per_chunk = max(1, max_values // (target.keys_of_row * target.width))
    return [
        Rows(np.arange(start, min(start + rows_per_chunk, target.rows)), None)
        for start in range(0, target.rows, rows_per_chunk)
    ]


def check_callback(callback: object) -> Callable[[], object] | None:
    if callback is not None and not callable(callback):
        raise InvalidArgument(f"expected a function without arguments as callback, got {show(callback)}")
    return callback


def check_integer(number: Any, name: str) -> int:
    """Return an integer of Python or NumPy as an int; raise `InvalidArgument` for any other type."""
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_integer or not -_INT64_LIMIT <= number < _INT64_LIMIT:
        raise InvalidArgument(f"expected an integer of 64 bits as {name}, got {show(number)}")
    return int(number)


def check_number(number: Any, name: str) -> float:
    """Return a finite number, or an array or tensor of one and without dimensions, as a float.

    `number` is of any type; raises `InvalidArgument`.
    """
    kind = getattr(getattr(number, "dtype", None), "kind", "f")  # of NumPy's types
    is_number = kind in "iuf" and not isinstance(number, str | bytes | bytearray | bool)
    value = nan
    if is_number and not getattr(number, "ndim", 0) and number is not np.ma.masked:
        with suppress(Exception):  # of the number's class; the error below says what was expected
            value = float(number)
    if not isfinite(value):
        raise InvalidArgument(f"expected a finite number as {name}, got {show(number)}")
    return value


def check_path(path: object, name: str = "path") -> str:
    if isinstance(path, str | os.PathLike):
        with suppress(Exception):  # of the path's class, or for letters that no file's name can have
            text = os.fspath(path)
            is_short = len(os.fsencode(text)) < _MAX_PATH_BYTES
            if isinstance(text, str) and Path(text).name and is_short and "\0" not in text:
                return text
    raise InvalidArgument(f"expected a {name} of a file, got {show(path)}")
