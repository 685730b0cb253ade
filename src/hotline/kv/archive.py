"""The .npz archive of a worker's tables.

A table is an array NAME [rows, dim]. With an optimiser there are NAME.first and NAME.second, the arrays of
its state [rows, dim], and NAME.steps.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import FIRST, SECOND
from hotline.kv.calls import InvalidArgument
from topologies.embedding_tables import Table

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


def load_archive(path: str | os.PathLike[str], tables: Mapping[str, Table]) -> dict[str, SavedTable]:
    """Read the tables of an archive; raise `InvalidArgument` if a table is missing, or has another shape."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidArgument(f"{os.fspath(path)}: expected an archive of kv.save: {error}") from None
    return {name: _read_table(path, table, arrays) for name, table in tables.items()}


def _read_table(
    path: str | os.PathLike[str], table: Table, arrays: Mapping[str, NDArray[np.generic]]
) -> SavedTable:
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
                f"{os.fspath(path)}: expected {name!r} as float32 ({table.rows}, {table.dim}), "
                f"got {description}"
            )
        table_arrays.append(array.astype(np.float32))
    steps = arrays.get(f"{table.name}.steps", np.array(0))
    # Without an optimiser there are only the values.
    states = dict(zip(_STATE_FLAGS.values(), table_arrays[1:], strict=False))
    return SavedTable(table_arrays[0], states, int(steps))
