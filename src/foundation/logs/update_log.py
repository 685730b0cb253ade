"""Reader of update logs: Parquet or CSV with columns of integers from 0 to 2^64 - 1."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from foundation.errors import DataError, reason_of
from foundation.logs.access.log_files import GZIP, ZLIB, ZSTD
from foundation.text import one_line, pluralize

UPDATE_COLUMNS = ("iteration", "worker", "key")  # of a log with one update a row
PARQUET_MAGIC = b"PAR1"
UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Errors that Polars raises for a file that it cannot read, `OSError` for a damaged compressed one, too. For
other damage it raises `PanicException`, which is no `Exception`."""
_MAX_INTEGER = 2**64 - 1
_HEAD_BYTES = 4096
_COMPRESSED = (GZIP, ZSTD, *ZLIB)  # Polars decompresses them
# Text has none of them.
CONTROL_CHARACTERS = re.compile(rb"[\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class UpdateLog:
    """A log whose header has been read; its rows may be larger than memory."""

    path: Path
    names: tuple[str, ...]
    is_parquet: bool

    @staticmethod
    def open(path: Path, expected: str = "expected an update log in Parquet or CSV") -> UpdateLog:
        """Read the header; raises `DataError`, whose text ends with `expected` if the file is not text."""
        head = read_head(path)
        is_parquet = head.startswith(PARQUET_MAGIC)
        if not (is_parquet or head.startswith(_COMPRESSED)):
            check_text(path, head, expected)
        frame = pl.scan_parquet(path, glob=False) if is_parquet else _scan_csv(path, ())
        with reading(path):
            names = frame.collect_schema().names()
        if not is_parquet:
            _check_names(path, names)
        return UpdateLog(path, tuple(names), is_parquet)

    def scan(self, columns: Sequence[str]) -> pl.LazyFrame:
        """Return a lazy frame of UInt64 columns; `fault` explains its read errors."""
        if not self.is_parquet:
            return _scan_csv(self.path, columns).select(columns)
        frame = pl.scan_parquet(self.path, glob=False).select(columns)
        schema = frame.collect_schema()
        for name in columns:
            if not schema[name].is_integer():
                raise DataError(f"{self.path}: expected integers in column {name}, got {schema[name]}")
        return frame.cast(pl.UInt64)

    def fault(self, columns: Sequence[str]) -> str | None:
        """Return a message on the first value that is no integer from 0 to 2^64 - 1, or None if all are."""
        try:
            faults = self._parquet_faults(columns) if self.is_parquet else self._csv_faults(columns)
            first_fault = next(faults, None)
        except UNREADABLE:
            return None
        return first_fault and f"{self.path}, {first_fault}"

    def place_of(self, row: int) -> str:
        """Return where a row is, numbered from 1: its line, or the row of a file that has no lines."""
        if self.is_parquet or read_head(self.path).startswith(_COMPRESSED):
            return f"row {row}"
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.reader(file)
            for _ in islice(filter(None, rows), row + 1):  # the header, too
                pass
            return f"line {rows.line_num}"

    def _parquet_faults(self, columns: Sequence[str]) -> Iterator[str]:
        is_bad = pl.any_horizontal(pl.col(name).is_null() | (pl.col(name) < 0) for name in columns)
        rows = pl.scan_parquet(self.path, glob=False).select(columns).with_row_index("row", 1).filter(is_bad)
        for number, *values in rows.head(1).collect(engine="streaming").iter_rows():
            for name, value in zip(columns, values, strict=True):
                if value is None or value < 0:
                    yield _fault_message(f"row {number}", name, "null" if value is None else value)

    def _csv_faults(self, columns: Sequence[str]) -> Iterator[str]:
        field_indices = [self.names.index(name) for name in columns]
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.reader(file)
            next(filter(None, rows))  # blank lines may come before the header
            try:
                for row in rows:
                    location = f"line {rows.line_num}"
                    if len(row) > len(self.names):
                        expected = pluralize(len(self.names), "column")
                        yield f"{location}: {pluralize(len(row), 'value')}; the header names {expected}"
                    for name, index in zip(columns, field_indices, strict=True):
                        text = row[index] if index < len(row) else ""
                        if not _is_integer(text):
                            yield _fault_message(location, name, repr(text) if text else "empty")
            except csv.Error as error:
                yield f"line {rows.line_num}: {error}"


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Raise `DataError` for an error that Polars or the system raises within the context."""
    try:
        yield
    except UNREADABLE as error:
        place = getattr(error, "filename", None) or path
        raise DataError(f"{place}: cannot be read: {first_line(error)}") from error


def read_head(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a regular file; a log or training set is read more than once")
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def check_text(path: Path, head: bytes, expected: str) -> None:
    if not head.strip():
        raise DataError(f"{path}: is empty; {expected}")
    if CONTROL_CHARACTERS.search(head):
        raise DataError(f"{path}: is neither text nor Parquet, which begins with PAR1; {expected}")


def first_line(error: BaseException) -> str:
    if isinstance(error, pl.exceptions.PanicException):
        return "it is damaged"
    return one_line(reason_of(error))


def _scan_csv(path: Path, columns: Sequence[str]) -> pl.LazyFrame:
    types = dict.fromkeys(columns, pl.UInt64)
    return pl.scan_csv(path, glob=False, infer_schema=False, schema_overrides=types)


def _check_names(path: Path, names: Sequence[str]) -> None:
    for name in names:
        # Polars renames a repeated column this way.
        original_name = re.sub(r"_duplicated_[0-9]+$", "", name)
        if original_name != name and original_name in names:
            raise DataError(f"{path}, line 1: expected the column {original_name!r} once, got it twice")
        if name != name.strip():
            raise DataError(f"{path}, line 1: expected a column name without spaces around it, got {name!r}")
    if len(names) == 1 and re.search(r"[;\t|]", names[0]):
        raise DataError(f"{path}, line 1: {names[0]!r} has no comma; columns are separated by commas")


def _is_integer(text: str) -> bool:
    # Leading zeros are allowed, but `int` refuses a text of thousands of digits.
    return bool(re.fullmatch(r" *\+?[0-9]{1,40} *", text)) and int(text) <= _MAX_INTEGER


def _fault_message(location: str, column: str, value: object) -> str:
    return f"{location}: column {column} is {value}; an integer from 0 to 2^64 - 1 expected"
