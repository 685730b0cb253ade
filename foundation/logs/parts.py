"""Atomic writes of files: Parquet parts of a log, .npz archives, texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.errors import DataError, reason_of


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path, then rename it to `path`; on an I/O or Polars error, remove it and raise `DataError`."""
    partial = partial_path(path)
    try:
        yield partial
        partial.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {reason_of(error)}") from error


def partial_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from error


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as partial:
        partial.write_text(text)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {reason_of(error)}") from error


def write_into_folder(path: Path, text: str) -> None:
    make_folder(path.parent)
    write_text(path, text)


Column: TypeAlias = Any  # an array, or a number or text for all rows, as `pl.DataFrame` accepts


class Parts:
    """Numbered parts DIRECTORY/NAME-<n>.parquet of one log, each complete in itself."""

    def __init__(self, directory: Path, name: str, schema: pl.Schema) -> None:
        self._directory = directory
        self._name = name
        self._schema = schema
        self._next_number = len(list(directory.glob(f"{name}-*.parquet")))

    def write(self, columns: Mapping[str, Column]) -> None:
        """Write a part, if it has rows: for each column an array, or one value. Raises `DataError`."""
        if set(columns) != set(self._schema):
            raise ValueError(
                f"{self._name}: expected the columns {sorted(self._schema)}, got {sorted(columns)}"
            )
        rows = pl.DataFrame(columns).select(pl.col(name).cast(kind) for name, kind in self._schema.items())
        if not rows.height:
            return
        with atomic_path(self._directory / f"{self._name}-{self._next_number}.parquet") as partial:
            rows.write_parquet(partial)
        self._next_number += 1


def save_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write an .npz archive, as `np.savez` does, whose own parameters cannot be names of arrays."""
    with atomic_path(path) as partial, ZipFile(partial, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
