"""The .npz archive of a worker's tables.

A table is an array NAME [rows, dim]. With an optimiser there are NAME.first and NAME.second, the arrays of
its state [rows, dim], and NAME.steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_STATE_FLAGS = {"first": FIRST, "second": SECOND}


class SavedTable(NamedTuple):
    values: Floats
    states: Mapping[int, Floats]
    """Arrays of the optimiser's state [rows, dim], by header flag; empty without an optimiser."""
    steps: int


def state_arrays(name: str, states: Sequence[Floats], steps: int) -> dict[str, Any]:
    """Return an archive's arrays for a table's optimiser: its states [rows, dim], and its steps."""
    arrays = {f"{name}.{suffix}": state for suffix, state in zip(_STATE_FLAGS, states, strict=True)}
    return {**arrays, f"{name}.steps": np.array(steps)}


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
    names = [
        table.name,
        *(f"{table.name}.{suffix}" for suffix in _STATE_FLAGS if table.optimiser is not None),
    ]
    table_arrays: list[Floats] = []
    for name in names:
        array = arrays.get(name)
        if array is None or array.shape != (table.rows, table.dim) or array.dtype != np.float32:
            description = "none" if array is None else f"{array.dtype} {array.shape}"
            raise InvalidArgument(
                f"path {path}: expected {name!r} as float32 ({table.rows}, {table.dim}), got {description}"
            )
        if not np.isfinite(array).all():
            raise InvalidArgument(f"path {path}: expected finite values in {name!r}")
        table_arrays.append(array.astype(np.float32))
    steps = arrays.get(f"{table.name}.steps", np.array(0))
    if steps.shape != () or steps.dtype.kind not in "iu" or steps < 0:
        raise InvalidArgument(
            f"path {path}: expected {table.name!r}.steps as an integer of at least 0, got {show(steps)}"
        )
    # Without an optimiser there are only the values.
    states = dict(zip(_STATE_FLAGS.values(), table_arrays[1:], strict=False))
    return SavedTable(table_arrays[0], states, int(steps))
