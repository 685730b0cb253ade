"""CSV, TSV and other delimited text, also Criteo's TSV and RecBole's atomic files.

Without a header, columns are named by their number; Criteo's TSV has none: a label, 13 counts and 26
hexadecimal categories, which may be empty. The header of
RecBole's files (`.inter`, `.user`, ...) has the type of each column: `token` is a key, `token_seq` a list of
keys separated by spaces, `float` and `float_seq` are no keys
(https://recbole.io/docs/user_guide/data/atomic_files.html).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from foundation.errors import DataError
from foundation.logs.access.block import AccessBlock, AccessTables, BadRows, ReadOptions
from foundation.logs.access.columns import AccessColumns, looks_like_key, resolve
from foundation.logs.access.rows import (
    HEX_KEY,
    INTEGER_KEY,
    TEXT,
    TEXT_KEY,
    Layout,
    TableLog,
    has_bad_rows,
    layout_of,
    to_block,
)
from foundation.logs.access.source import StreamedLog, line_blocks
from foundation.logs.update_log import UNREADABLE, UPDATE_COLUMNS
from foundation.text import pluralize

_DELIMITERS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "text with vertical bars"}
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
_SPACES = " \t\r\f\v"
_LONE_RETURN = re.compile(r"\r(?!\n)")
_SAMPLE_LINES = 1000
_CUT_HEAD_BYTES = 1 << 15
"""Size above which a head may be the beginning of a longer file, so that its last line may be cut off."""
CRITEO_COUNTS, CRITEO_CATEGORIES = 13, 26
CRITEO_NAMES = (
    "label",
    *(f"I{number}" for number in range(1, CRITEO_COUNTS + 1)),
    *(f"C{number}" for number in range(1, CRITEO_CATEGORIES + 1)),
)
_CRITEO_CATEGORY = re.compile(r"[0-9a-fA-F]*")
_CRITEO_COUNT = re.compile(r"(-?\d+)?")
_RECBOLE_FIELD = re.compile(r"(.+):(token|token_seq|float|float_seq)")
_RECBOLE_TIME_NAMES = ("timestamp", "time", "ts")


def delimiter_of(line: str) -> str | None:
    counts = {delimiter: line.count(delimiter) for delimiter in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda delimiter: counts[delimiter])
    return delimiter if counts[delimiter] else None


def head_lines(head: bytes) -> list[str]:
    text = head.decode("utf-8-sig", "replace")
    lines = re.split(r"\r?\n", _LONE_RETURN.sub(" ", text))
    if len(lines) > 1 and not text.endswith("\n") and len(head) > _CUT_HEAD_BYTES:
        lines.pop()
    return [line for line in lines if line.strip()][:_SAMPLE_LINES]


@dataclass
class DelimitedLog(StreamedLog, TableLog):
    delimiter: str
    names: tuple[str, ...]
    has_header: bool
    layout: Layout
    format: str

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        line, row = 1, first_row
        with self.open() as stream:
            for data in line_blocks(stream):
                block, rows = self._read_block(data, line, tables, bad, row)
                line += data.count(b"\n")
                row += rows
                yield block

    def _read_block(
        self, data: bytes, line: int, tables: AccessTables, bad: BadRows, row: int
    ) -> tuple[AccessBlock, int]:
        has_header = self.has_header and line == 1
        frame = self._parse(data, has_header)
        if frame is not None and not has_bad_rows(frame, self.layout):
            return to_block(frame, self.layout, tables, _reject_bad_row, row), frame.height
        # Parse again with the module csv, which knows the line of each row.
        frame, lines = self._parse_slowly(data, line, has_header, bad)

        def report(row_index: int, problem: str, expected: str) -> None:
            bad.add(self.path, "line", lines[row_index], problem, expected)

        return to_block(frame, self.layout, tables, report, row), frame.height

    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        """Return the columns as texts; None if a row has another number of values than the header."""
        try:
            frame = pl.read_csv(
                io.BytesIO(data),
                has_header=False,
                skip_rows=int(has_header),
                new_columns=list(self.names),
                separator=self.delimiter,
                infer_schema=False,
                encoding="utf8",
            )
        except pl.exceptions.NoDataError:
            return self._to_frame([])
        except UNREADABLE:
            return None
        if frame.width != len(self.names):
            return None
        # Polars fills up short rows; without quotes, the number of delimiters shows them.
        if b'"' not in data:
            expected = (frame.height + has_header) * (len(self.names) - 1)
            if data.count(self.delimiter.encode()) != expected:
                return None
        kinds = self.layout.kinds
        # Numbers are not stripped here: with spaces they count as bad, and `_parse_slowly` converts them.
        texts = [name for name in self.layout.columns.names if kinds[name] in (TEXT, TEXT_KEY)]
        return frame.select(self.layout.columns.names).with_columns(
            pl.col(texts).str.strip_chars(_SPACES).replace("", None)
        )

    def _parse_slowly(
        self, data: bytes, line: int, has_header: bool, bad: BadRows
    ) -> tuple[pl.DataFrame, list[int]]:
        """Return the columns of rows that have as many values as the header, and the line of each row."""
        text = data.decode("utf-8-sig" if line == 1 else "utf-8", "replace")
        # As in `_parse`, only \n and \r\n end a line; a lone \r or a form feed does not.
        lines_of_text = io.StringIO(_LONE_RETURN.sub(" ", text), newline="\n")
        reader = csv.reader(lines_of_text, delimiter=self.delimiter)
        rows, lines = [], []
        try:
            for values in reader:
                if has_header and values:
                    has_header = False
                    continue
                if not values:
                    continue
                if len(values) != len(self.names):
                    problem, expected = (
                        pluralize(len(values), "value"),
                        f"{len(self.names)}, one for each column",
                    )
                    bad.add(self.path, "line", line + reader.line_num - 1, problem, expected)
                    continue
                rows.append(values)
                lines.append(line + reader.line_num - 1)
        except csv.Error as error:
            raise DataError(f"{self.path}, line {line + reader.line_num - 1}: {error}") from None
        return self._to_frame(rows), lines

    def _to_frame(self, rows: Sequence[Sequence[str]]) -> pl.DataFrame:
        columns = [(name, self.names.index(name)) for name in self.layout.columns.names]
        return pl.DataFrame(
            {
                name: [row[field_index].strip(_SPACES) or None for row in rows]
                for name, field_index in columns
            },
            schema=dict.fromkeys((name for name, _ in columns), pl.String),
        )


def open_delimited(path: Path, head: bytes, options: ReadOptions) -> DelimitedLog | None:
    lines = head_lines(head)
    if not lines:
        return None
    delimiter = delimiter_of(lines[0])
    if delimiter is None and not options.columns.key and not _is_column_of_keys(lines[0]):
        return None
    first_row = next(csv.reader(lines[:1], delimiter=delimiter or ","))
    has_header = not any(_NUMBER.fullmatch(value) for value in first_row)
    names = (
        tuple(name.strip() for name in first_row)
        if has_header
        else tuple(map(str, range(1, len(first_row) + 1)))
    )
    _check_names(path, names)
    columns = options.columns
    if not has_header and not columns.key and len(names) == 1:
        columns = AccessColumns(key=names)
    location = f"{path}, line 1"
    columns = resolve(
        columns,
        names,
        lists=(),
        location=location if has_header else f"{location}, which is no header",
    )
    sample = sample_of(lines[int(has_header) :], names, delimiter or ",")
    format = _DELIMITERS[delimiter or ","] + ("" if has_header else " without a header")
    is_update_log = set(UPDATE_COLUMNS) <= set(columns.names)
    key_kinds = {"key": INTEGER_KEY} if is_update_log else {}
    return DelimitedLog(
        path,
        delimiter=delimiter or ",",
        names=names,
        has_header=has_header,
        layout=layout_of(columns, sample, separators={}, key_kinds=key_kinds),
        format=format,
    )


def sample_of(lines: Sequence[str], names: Sequence[str], delimiter: str) -> pl.DataFrame:
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if len(row) == len(names)]
    return pl.DataFrame(
        {name: [row[field_index].strip() or None for row in rows] for field_index, name in enumerate(names)},
        schema=dict.fromkeys(names, pl.String),
    )


def _reject_bad_row(row_index: int, problem: str, expected: str) -> None:
    raise AssertionError(f"row {row_index}: {problem}, although the rows had been checked")


def _is_column_of_keys(line: str) -> bool:
    return line.strip().isdecimal() or looks_like_key(line.strip())


def _check_names(path: Path, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{path}, line 1: expected the column {name!r} once, got it twice")


def open_criteo(path: Path, head: bytes, options: ReadOptions) -> DelimitedLog | None:
    lines = head_lines(head)
    fields = lines[0].split("\t") if lines else []
    if len(fields) != len(CRITEO_NAMES) or fields[0] not in ("0", "1"):
        return None
    counts, categories = fields[1 : CRITEO_COUNTS + 1], fields[-CRITEO_CATEGORIES:]
    if not all(map(_CRITEO_COUNT.fullmatch, counts)) or not all(map(_CRITEO_CATEGORY.fullmatch, categories)):
        return None
    requested = (
        options.columns if options.columns.key else AccessColumns(key=CRITEO_NAMES[-CRITEO_CATEGORIES:])
    )
    columns = resolve(requested, CRITEO_NAMES, lists=(), location=str(path))
    kinds = {name: HEX_KEY for name in columns.key if name.startswith("C")}
    layout = layout_of(columns, sample_of(lines, CRITEO_NAMES, "\t"), separators={}, key_kinds=kinds)
    return DelimitedLog(
        path, delimiter="\t", names=CRITEO_NAMES, has_header=False, layout=layout, format="Criteo's TSV"
    )


def open_recbole(path: Path, head: bytes, options: ReadOptions) -> DelimitedLog | None:
    lines = head_lines(head)
    fields = [_RECBOLE_FIELD.fullmatch(name) for name in lines[0].split("\t")] if lines else []
    if not any(fields):
        return None
    types: dict[str, str] = {}
    for name, field in zip(lines[0].split("\t"), fields, strict=True):
        if field is None or field[1] in types:
            kinds = "token, token_seq, float or float_seq"
            raise DataError(f"{path}, line 1: column {name!r}; expected NAME:TYPE once, of type {kinds}")
        types[field[1]] = field[2]
    names = tuple(types)
    requested = options.columns
    tokens = tuple(name for name in names if types[name].startswith("token"))
    time = next((name for name in _RECBOLE_TIME_NAMES if name in types), None)
    if not requested.key and requested.table is None and requested.iteration is None:
        requested = AccessColumns(key=tokens, time=requested.time or time)
    columns = resolve(requested, names, lists=(), location=f"{path}, line 1")
    separators = {name: " " for name in columns.key if types[name].endswith("_seq")}
    layout = layout_of(columns, sample_of(lines[1:], names, "\t"), separators)
    return DelimitedLog(
        path, delimiter="\t", names=names, has_header=True, layout=layout, format="RecBole's atomic file"
    )
