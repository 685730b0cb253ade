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

    @property
    def arrays(self) -> tuple[Floats, Mapping[int, Floats]]:
        return self.values, self.states


def state_arrays(name: str, states: Sequence[Floats], steps: int) -> dict[str, Any]:
    """Return an archive's arrays of a table's optimiser: its state [rows, dim] each, and its steps."""
    arrays = {f"{name}.{part}": state for part, state in zip(_STATE_FLAGS, states, strict=True)}
    return {**arrays, f"{name}.steps": np.array(steps)}


def load_archive(path: str | os.PathLike[str], tables: Mapping[str, Table]) -> dict[str, SavedTable]:
    """Read the tables of an archive; raise `InvalidArgument` if one is missing, or has another shape."""
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidArgument(f"{os.fspath(path)}: expected an archive of kv.save: {error}") from None
    return {name: _table_of(path, table, arrays) for name, table in tables.items()}


def _table_of(
    path: str | os.PathLike[str], table: Table, arrays: Mapping[str, NDArray[np.generic]]
) -> SavedTable:
    names = [table.name, *(f"{table.name}.{part}" for part in _STATE_FLAGS if table.optimiser is not None)]
    found: list[Floats] = []
    for name in names:
        array = arrays.get(name)
        if array is None or array.shape != (table.rows, table.dim) or array.dtype != np.float32:
            got = "none" if array is None else f"{array.dtype} {array.shape}"
            raise InvalidArgument(
                f"{os.fspath(path)}: expected {name!r} as float32 ({table.rows}, {table.dim}), got {got}"
            )
        found.append(array.astype(np.float32))
    steps = arrays.get(f"{table.name}.steps", np.array(0))
    return SavedTable(found[0], dict(zip(_STATE_FLAGS.values(), found[1:], strict=False)), int(steps))
