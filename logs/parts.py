"""Files that appear whole or not at all: Parquet parts of a log, and .npz archives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


class Parts:
    """Numbered parts DIRECTORY/NAME-<n>.parquet of one log, each complete in itself."""

    def __init__(self, directory: Path, name: str, schema: pl.Schema) -> None:
        self._directory = directory
        self._name = name
        self._schema = schema
        self._next = len(list(directory.glob(f"{name}-*.parquet")))

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write a part, if there is anything to write; it appears whole or not at all.

        `columns` has an array, or a number or text for all rows, for each column of the log.
        """
        if set(columns) != set(self._schema):
            raise ValueError(f"{self._name}: columns {sorted(columns)}, not {sorted(self._schema)}")
        rows = pl.DataFrame(columns).select(pl.col(name).cast(kind) for name, kind in self._schema.items())
        if not rows.height:
            return
        path = self._directory / f"{self._name}-{self._next}.parquet"
        partial = path.with_suffix(".partial")
        rows.write_parquet(partial)
        partial.replace(path)
        self._next += 1


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name as an .npz archive."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]  # the stub takes them for its own flag
    partial.replace(path)
