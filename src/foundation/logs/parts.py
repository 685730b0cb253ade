"""Atomic writes of files: Parquet parts of a log, .npz archives, texts."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError, DiskFullError, is_disk_full, reason_of
from foundation.folders import try_lock

if TYPE_CHECKING:
    import polars as pl

_MIN_ROOM = 1 << 16
"""Bytes without which a disk counts as full after a failed write."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path, then rename it to `path`; after any error, remove it.

    Raises `DataError` after an I/O or Polars error, or if another process is writing the same file, and
    `DiskFullError` if there is no room.
    """
    partial = partial_path(path)
    try:
        with _created_and_locked(partial) as is_locked:
            if not is_locked:
                raise DataError(f"{path}: cannot be written: another process is writing it")
            try:
                yield partial
                partial.replace(path)
            except BaseException as error:
                is_full = _is_of_polars(error) and not _can_grow(partial)
                with suppress(OSError):
                    partial.unlink(missing_ok=True)
                if is_full:
                    message = f"{path}: cannot be written: {os.strerror(errno.ENOSPC)}"
                    raise DiskFullError(message) from error
                raise
    except Exception as error:
        if not (isinstance(error, OSError) or _is_of_polars(error)):
            raise
        error_class = DiskFullError if is_disk_full(error) else DataError
        raise error_class(f"{path}: cannot be written: {reason_of(error)}") from error


def _is_of_polars(error: BaseException) -> bool:
    polars = sys.modules.get("polars")  # a process that has not imported Polars has none of its errors
    return polars is not None and isinstance(error, polars.exceptions.PolarsError)


def _can_grow(path: Path) -> bool:
    """Return whether a file has room to grow: Polars' errors do not always say that there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, _MIN_ROOM)
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _created_and_locked(path: Path) -> Iterator[bool]:
    """Create a file if there is none, and lock it; yield False if another process has locked it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            is_locked = try_lock(descriptor)
            # The previous holder may have renamed the file after this process had opened it.
            if not is_locked or _is_at(descriptor, path):
                yield is_locked
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def partial_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from error


def check_output(path: Path, inputs: Sequence[Path] = ()) -> None:
    """Raise `DataError` if a file cannot be written, or if that would overwrite one of `inputs`."""
    try:
        if not stat.S_ISDIR(path.parent.stat().st_mode):
            raise DataError(f"{path}: cannot be written: Not a directory")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise DataError(f"{path}: cannot be written: no permission to write into {path.parent}")
        for target in (path, partial_path(path)):
            target_stat = _stat_if_exists(target)
            if target_stat and not stat.S_ISREG(target_stat.st_mode):
                raise DataError(f"{target}: not a regular file; nothing can be written there")
            for file in inputs:
                if target_stat and _is_at_path(target_stat, file):
                    raise DataError(f"{path}: writing it would overwrite the log {file}; choose another name")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error


def _is_at_path(file_stat: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(file_stat, path.stat())
    except OSError:
        return False  # an input that is not there is an error when it is read


def _stat_if_exists(path: Path) -> os.stat_result | None:
    # From Python 3.14 on, Path.exists() is False for a path that is too long, too.
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


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
        import polars as pl  # imported late: most processes that import this module write no parts

        if set(columns) != set(self._schema):
            raise ValueError(
                f"{self._name}: expected the columns {sorted(self._schema)}, got {sorted(columns)}"
            )
        # `pl.DataFrame` repeats one value by a query of its own for each column.
        arrays = {name: column for name, column in columns.items() if _has_rows(column)}
        values = {name: pl.lit(column) for name, column in columns.items() if name not in arrays}
        rows = pl.DataFrame(arrays).select(
            values.get(name, pl.col(name)).cast(kind).alias(name) for name, kind in self._schema.items()
        )
        if not rows.height:
            return
        with atomic_path(self._directory / f"{self._name}-{self._next_number}.parquet") as partial:
            rows.write_parquet(partial)
        self._next_number += 1


def _has_rows(column: Column) -> bool:
    return hasattr(column, "__len__") and not isinstance(column, str)


def save_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write an .npz archive, as `np.savez` does, whose own parameters cannot be names of arrays."""
    with atomic_path(path) as partial, ZipFile(partial, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
