"""Parquet and Arrow's IPC, also with columns of lists.

HugeCTR's `_metadata.json` beside a Parquet file names its key columns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from foundation.errors import DataError
from foundation.logs.access.block import AccessBlock, AccessTables, BadRows, ReadOptions
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.log_files import open_stream
from foundation.logs.access.resolve import resolve
from foundation.logs.access.table_rows import Layout, RowConverter, TableLog, layout_of
from foundation.logs.update_log import PARQUET_MAGIC, reading
from foundation.text import one_line

_ROWS_AT_ONCE = 1 << 18
_SAMPLE_ROWS = 1000
_METADATA = "_metadata.json"
_MAGIC_BYTES = 4
ARROW_FILE, ARROW_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
"""First bytes of a file (Feather) and of a stream in Arrow's IPC format."""


@dataclass
class ParquetLog(TableLog):
    path: Path
    layout: Layout
    format: str
    _frame: pl.LazyFrame
    _row_count: int
    _rows_read: int = field(default=0, init=False)

    @property
    def position(self) -> int:
        return self.path.stat().st_size * self._rows_read // max(self._row_count, 1)

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        selection = self._frame.select(self.layout.columns.names)
        self._rows_read = 0
        converter = RowConverter(self.layout, tables, first_row)
        with reading(self.path):
            for frame in selection.collect_batches(chunk_size=_ROWS_AT_ONCE):
                begin = self._rows_read
                # A default binds `begin` of this frame, not of a later one.

                def report(row_index: int, problem: str, expected: str, begin: int = begin) -> None:
                    bad.add(self.path, "row", begin + row_index + 1, problem, expected)

                self._rows_read += frame.height
                bad.rows += frame.height
                yield from converter.blocks(frame, report) or ()


def open_parquet(path: Path, head: bytes, options: ReadOptions) -> ParquetLog | None:
    if not head.startswith(PARQUET_MAGIC):
        return None
    key_columns = _hugectr_keys(path)
    requested = options.columns
    if key_columns and not requested.key:
        return _open(
            path, _scan(path, head, pl.scan_parquet), replace(requested, key=key_columns), "HugeCTR's Parquet"
        )
    return _open(path, _scan(path, head, pl.scan_parquet), requested, "Parquet")


def open_arrow(path: Path, head: bytes, options: ReadOptions) -> ParquetLog | None:
    if head.startswith(ARROW_FILE):
        return _open(path, _scan(path, head, pl.scan_ipc), options.columns, "Arrow")
    if head.startswith(ARROW_STREAM):
        return _open(path, _scan(path, head, _scan_stream), options.columns, "Arrow's stream")
    return None


def _scan_stream(source: Path | io.BytesIO) -> pl.LazyFrame:
    return pl.read_ipc_stream(source).lazy()


def _open(path: Path, frame: pl.LazyFrame, requested: AccessColumns, format: str) -> ParquetLog:
    with reading(path):
        schema = frame.collect_schema()
        sample = frame.head(_SAMPLE_ROWS).collect()
        rows = int(frame.select(pl.len()).collect().item())
    lists = [name for name, kind in schema.items() if isinstance(kind, pl.List) and kind.inner.is_integer()]
    columns = resolve(requested, sample, lists, str(path))
    _check_types(path, columns, schema)
    return ParquetLog(path, layout_of(columns, sample), format, frame, rows)


def _scan(path: Path, head: bytes, scan: Callable[[Path | io.BytesIO], pl.LazyFrame]) -> pl.LazyFrame:
    """Return the rows, in which lists of a fixed size are lists like others."""
    with reading(path):
        with path.open("rb") as file:
            is_plain = file.read(_MAGIC_BYTES) == head[:_MAGIC_BYTES]
        if is_plain:
            frame = scan(path)
        else:  # rare: the whole file is compressed
            with open_stream(path) as stream:
                frame = scan(io.BytesIO(stream.read()))
        arrays = [name for name, kind in frame.collect_schema().items() if isinstance(kind, pl.Array)]
        return frame.with_columns(pl.col(name).arr.to_list() for name in arrays)


def _hugectr_keys(path: Path) -> tuple[str, ...]:
    file = path.with_name(_METADATA)
    try:
        categories = json.loads(file.read_text()).get("cats", [])
        return tuple(str(category["col_name"]) for category in categories)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise DataError(
            f"{file}: expected HugeCTR's JSON, with a col_name in each of cats: {error}"
        ) from None


def _check_types(path: Path, columns: AccessColumns, schema: pl.Schema) -> None:
    for name in columns.names:
        column_type = schema[name]
        value_type = column_type.inner if isinstance(column_type, pl.List) else column_type
        if name in columns.key or name == columns.table:
            if not (
                value_type.is_integer()
                or value_type.is_float()
                or value_type in (pl.String, pl.Categorical, pl.Enum)
            ):
                raise DataError(
                    f"{path}: expected integers or texts in column {one_line(name)}, got {column_type}"
                )
        elif name == columns.op:
            if column_type not in (pl.String, pl.Categorical):
                raise DataError(
                    f"{path}: expected pull or push in column {one_line(name)}, got {column_type}"
                )
        elif name == columns.time:
            if not (column_type.is_numeric() or column_type.is_temporal() or column_type == pl.String):
                raise DataError(f"{path}: expected times in column {one_line(name)}, got {column_type}")
        elif not column_type.is_integer():
            raise DataError(f"{path}: expected integers in column {one_line(name)}, got {column_type}")
