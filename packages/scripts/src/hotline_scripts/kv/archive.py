"""The .npz archive of a worker's tables.

A table is an array NAME [rows, dim] of float32; or of int32, the fixed-point numbers at the servers, and then
there is NAME.scale, their units in 1.0. With an optimiser there are NAME.first and NAME.second, the arrays of
its state [rows, dim], and NAME.steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from foundation.protocol.header import FIRST, SECOND
from foundation.text import show
from hotline_scripts.embedding_tables import EmbeddingTable
from hotline_scripts.kv.calls import InvalidArgument
from hotline_scripts.kv.failures import describe

Floats = NDArray[np.float32]
Numbers = NDArray[np.float32] | NDArray[np.int32]
_STATE_FLAGS = {"first": FIRST, "second": SECOND}


class SavedTable(NamedTuple):
    values: Numbers
    states: Mapping[int, Floats]
    """Arrays of the optimiser's state [rows, dim], by header flag; empty without an optimiser."""
    steps: int


def table_arrays(table: EmbeddingTable, saved: SavedTable) -> dict[str, Any]:
    """Return an archive's arrays of a table."""
    arrays: dict[str, Any] = {table.name: saved.values}
    if saved.values.dtype == np.int32:
        arrays[f"{table.name}.scale"] = np.array(table.scale)
    if table.optimiser is not None:
        arrays |= {f"{table.name}.{suffix}": saved.states[flag] for suffix, flag in _STATE_FLAGS.items()}
        arrays[f"{table.name}.steps"] = np.array(saved.steps)
    return arrays


def load_archive(path: str, tables: Mapping[str, EmbeddingTable]) -> dict[str, SavedTable]:
    """Read the tables of an archive; raise `InvalidArgument` if a table is missing, or has another shape."""
    try:
        with open(path, "rb") as file:  # NumPy would leave it open after an error
            arrays = dict(_read_arrays(file))
    except Exception as error:  # of the file system, zipfile, zlib or NumPy, whose list is not documented
        raise InvalidArgument(f"path {path}: expected an archive of kv.save: {describe(error)}") from error
    return {name: _read_table(path, table, arrays) for name, table in tables.items()}


def _read_arrays(file: BinaryIO) -> Mapping[str, NDArray[np.generic]]:
    archive = np.load(file, allow_pickle=False)
    if not isinstance(archive, NpzFile):
        raise ValueError("it has one array, and not arrays by name")
    return archive


def _read_table(path: str, table: EmbeddingTable, arrays: Mapping[str, NDArray[np.generic]]) -> SavedTable:
    if table.optimiser is None and (scale := arrays.get(f"{table.name}.scale")) is not None:
        if scale.shape != () or scale != table.scale:
            raise InvalidArgument(
                f"path {path}: expected the scale of table {table.name!r}, {table.scale:.10g}, "
                f"got {show(scale)}"
            )
        return SavedTable(_read_array(path, table, table.name, arrays, np.dtype(np.int32)), {}, 0)
    suffixes = [] if table.optimiser is None else [f".{suffix}" for suffix in _STATE_FLAGS]
    values, *state_arrays = [
        _read_array(path, table, f"{table.name}{suffix}", arrays, np.dtype(np.float32))
        for suffix in ("", *suffixes)
    ]
    steps = arrays.get(f"{table.name}.steps", np.array(0))
    if steps.shape != () or steps.dtype.kind not in "iu" or steps < 0:
        raise InvalidArgument(
            f"path {path}: expected {table.name!r}.steps as an integer of at least 0, got {show(steps)}"
        )
    # Without an optimiser there are only the values.
    states = dict(zip(_STATE_FLAGS.values(), state_arrays, strict=False))
    return SavedTable(values, states, int(steps))


def _read_array(
    path: str,
    table: EmbeddingTable,
    name: str,
    arrays: Mapping[str, NDArray[np.generic]],
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.shape != (table.rows, table.dim) or array.dtype != dtype:
        description = "none" if array is None else f"{array.dtype} {array.shape}"
        raise InvalidArgument(
            f"path {path}: expected {name!r} as {dtype} ({table.rows}, {table.dim}), got {description}"
        )
    if not np.isfinite(array).all():
        raise InvalidArgument(f"path {path}: expected finite values in {name!r}")
    return array.astype(dtype)
