"""CSV, TSV and other delimited text, also a value a line, Criteo's TSV and RecBole's atomic files.

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
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from foundation.errors import DataError
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.dialect import (
    COMMA,
    NUMBER,
    SEPARATORS,
    SPECIFIC,
    TAB,
    WHOLE_LINE,
    Candidate,
    Head,
    Separator,
    separator_of,
)
from foundation.logs.access.formats.text_table import SPACES, Report, TextTableLog
from foundation.logs.access.guess import is_known_name
from foundation.logs.access.kinds import HEX_KEY, INTEGER_KEY, TEXT, TEXT_KEY
from foundation.logs.access.resolve import resolve
from foundation.logs.access.table_rows import layout_of
from foundation.logs.update_log import UNREADABLE, UPDATE_COLUMNS
from foundation.text import pluralize

_RAW_SEPARATOR = b"\x1f"  # stands for a separator that Polars does not know
_BLANKS = re.compile(rb"[ \t]+")
_SPARE_BLANKS = re.compile(rb"  |\t|^ | \r?$", re.MULTILINE)
_DATE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d.*")
_HINT = "(--separator, if another text is between values; --skip-bad leaves such lines out)"
_NUMERIC_SHARE = 0.9  # of a column's values, from which on a text above them is its name
_MIN_TABLE_QUALITY, _MAX_TABLE_QUALITY, _COLUMN_QUALITY = 0.6, 0.95, 0.7
_FEATURE = re.compile(r"\d+:\S+")  # of a libsvm sample, which is no cell of a table
_FEATURE_QUALITY = 0.3
_NUMBERS = re.compile(r"[\d.]+(\s+[\d.]+)+")  # several cells between spaces, rather than one
_VALUE = re.compile(r"[^\s{[<]\S*")  # of a column: neither a sentence nor the beginning of a structure
_MARK = ["*"]  # a line between parts of a trace of LIRS, with a value a line
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


@dataclass
class DelimitedLog(TextTableLog):
    separator: Separator
    names: tuple[str, ...]

    @property
    def has_quotes(self) -> bool:
        return self.separator.has_quotes

    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        """Return the columns as texts; None if a row has another number of values than the header."""
        separator = self.separator.text.encode()
        if len(separator) != 1 or self.separator.is_blank:
            if _RAW_SEPARATOR in data:
                return None
            if self.separator.is_blank:
                if _SPARE_BLANKS.search(data):
                    data = b"\n".join(_BLANKS.sub(b" ", line.strip()) for line in data.split(b"\n"))
            elif separator:
                data, separator = data.replace(separator, _RAW_SEPARATOR), _RAW_SEPARATOR
            else:
                separator = _RAW_SEPARATOR
        try:
            frame = pl.read_csv(
                io.BytesIO(data),
                has_header=False,
                skip_rows=int(has_header),
                new_columns=list(self.names),
                separator=separator.decode(),
                quote_char='"' if self.separator.has_quotes else None,
                infer_schema=False,
                encoding="utf8",
            )
        except pl.exceptions.NoDataError:
            return self._to_frame([], self.names)
        except UNREADABLE:
            return None
        if frame.width != len(self.names):
            return None
        # Polars fills up short rows; without quotes, the number of delimiters shows them.
        if not self.separator.has_quotes or b'"' not in data:
            expected = (frame.height + has_header) * (len(self.names) - 1)
            if data.count(separator) != expected:
                return None
        kinds = self.layout.kinds
        # Numbers are not stripped here: with spaces they count as bad, and `_parse_slowly` converts them.
        is_text = {name: kinds[name] in (TEXT, TEXT_KEY) for name in self.layout.columns.names}
        texts = [
            name for name, each_is_text in is_text.items() if each_is_text or name in self.layout.separators
        ]
        columns = frame[list(self.layout.columns.names)]
        if not texts:
            return columns
        return columns.with_columns(pl.col(texts).str.strip_chars(SPACES).replace("", None))

    def _parse_slowly(self, text: str, has_header: bool) -> tuple[pl.DataFrame, list[int], list[Report]]:
        # As in `_parse`, only \n and \r\n end a line; a lone \r or a form feed does not.
        rows: list[Sequence[str]] = []
        lines: list[int] = []
        reports: list[Report] = []
        for line, values in self._rows(text):
            if has_header:
                has_header = False
            elif values == _MARK and len(self.names) == 1:
                continue
            elif len(values) != len(self.names):
                expected = f"{len(self.names)}, one for each column {_HINT}"
                reports.append((line, pluralize(len(values), "value"), expected))
            else:
                rows.append(values)
                lines.append(line)
        return self._to_frame(rows, self.names), lines, reports

    def _rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the last line of each row that is not empty, from 0, and the row's values."""
        lines = io.StringIO(text, newline="\n")
        if not self.separator.has_quotes:
            for number, line in enumerate(lines):
                if line.strip():
                    yield number, self.separator.split_line(line.rstrip("\r\n"))
            return
        reader = csv.reader(lines, delimiter=self.separator.text)
        try:
            for values in reader:
                if values:
                    yield reader.line_num - 1, values
        except csv.Error as error:
            raise DataError(f"{self.path}, near row {values}: {error}") from None


def examine_tables(head: Head) -> Iterator[Candidate]:
    """Yield a candidate for each separator: how many rows have as many values as most have."""
    separators = SEPARATORS if head.options.separator is None else (separator_of(head.options.separator),)
    for separator in separators:
        found = [_examine_table(head, separator)]
        if separator.has_quotes and any('"' in line for line in head.lines):
            found.append(_examine_table(head, separator.without_quotes()))
        yield from sorted((each for each in found if each is not None), key=lambda each: -each.score)[:1]


def _examine_table(head: Head, separator: Separator) -> Candidate | None:
    try:
        rows = separator.split(head.lines)
    except csv.Error:
        return None
    width = Counter(map(len, rows)).most_common(1)[0][0]
    fitting = [row for row in rows if len(row) == width]
    if width < 2 and head.options.separator is None:
        return None
    others = [each.text for each in SEPARATORS if each.text != separator.text and not each.is_blank]
    cells = [cell for row in fitting for cell in row]
    single = sum(
        not any(other in cell for other in others) and _NUMBERS.fullmatch(cell) is None for cell in cells
    )
    quality = _MIN_TABLE_QUALITY + (_MAX_TABLE_QUALITY - _MIN_TABLE_QUALITY) * single / max(len(cells), 1)
    if 10 * sum(_FEATURE.fullmatch(cell) is not None for cell in cells) > len(cells):
        quality *= _FEATURE_QUALITY
    return Candidate("table", len(fitting), len(rows), quality, partial(_open_table, head, separator, width))


def examine_column(head: Head) -> Iterator[Candidate]:
    is_requested = head.options.format == "column"
    single = [line for line in head.lines if is_requested or _VALUE.fullmatch(line.strip())]
    divided = sum(any(each.text in line for each in SEPARATORS) for line in single)
    quality = _COLUMN_QUALITY * (1 - 0.5 * divided / max(len(single), 1))
    separator = WHOLE_LINE if is_requested or any("," in line for line in head.lines) else COMMA
    yield Candidate("column", len(single), len(head.lines), quality, partial(_open_table, head, separator, 1))


def _open_table(head: Head, separator: Separator, width: int) -> DelimitedLog:
    path, requested = head.path, head.options.columns
    rows = separator.split(head.lines)
    comment_names = _names_in_comment(head, separator, width)
    has_header = comment_names is None and _has_header(rows, requested)
    if has_header and not _is_pandas_header(rows[0]):
        names = _header_names(path, rows[0])
    elif comment_names is not None:
        names = _header_names(path, comment_names)
    else:
        names = tuple(map(str, range(1, width + 1)))
    sample = sample_of(rows[int(has_header) :], names)
    is_named = comment_names is not None or (has_header and not _is_pandas_header(rows[0]))
    location = f"{path}, line {head.comment_lines + 1}"
    columns = resolve(
        requested, sample, (), location if is_named else f"{location}, which is no header", is_named
    )
    format = separator.title if separator.text or not has_header else "a column of text"
    if width == 1 and separator.text == COMMA.text and not is_named:
        format = WHOLE_LINE.title
    elif not is_named:
        format += " without a header"
    is_update_log = set(UPDATE_COLUMNS) <= set(columns.names)
    key_kinds = {"key": INTEGER_KEY} if is_update_log else {}
    return DelimitedLog(
        path,
        layout=layout_of(columns, sample, key_kinds=key_kinds),
        format=format,
        has_header=has_header,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
        separator=separator,
        names=names,
    )


def _names_in_comment(head: Head, separator: Separator, width: int) -> list[str] | None:
    if head.last_comment is None:
        return None
    if len(head.names) == width:
        return list(head.names)
    names = separator.split_line(head.last_comment.lstrip("#% ").rstrip("\r"))
    is_header = len(names) == width and any(is_known_name(name) for name in names)
    return names if is_header else None


def _has_header(rows: Sequence[Sequence[str]], requested: AccessColumns) -> bool:
    first, others = rows[0], rows[1:]
    if _is_pandas_header(first):
        return True
    if any(NUMBER.fullmatch(value) for value in first):
        return False
    if any(map(is_known_name, first)):
        return True
    for index, name in enumerate(first):
        values = [row[index] for row in others if len(row) == len(first) and row[index].strip()]
        typed = sum(
            NUMBER.fullmatch(value) is not None or _DATE.fullmatch(value) is not None for value in values
        )
        if values and typed >= _NUMERIC_SHARE * len(values):
            return _DATE.fullmatch(name) is None
        if name in values:
            return False
    numbers_columns = requested.names and all(map(str.isdecimal, requested.names))
    return len(first) > 1 and not numbers_columns


def _is_pandas_header(values: Sequence[str]) -> bool:
    """Return whether a header is that of a frame without names, after the column of the index."""
    return not values[0].strip() and list(values[1:]) == list(map(str, range(len(values) - 1)))


def _header_names(path: Path, values: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a header; a column without one is named by its number."""
    names = tuple(value.strip() or str(number) for number, value in enumerate(values, 1))
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{path}, line 1: expected the column {name!r} once, got it twice")
    return names


def sample_of(rows: Sequence[Sequence[str]], names: Sequence[str]) -> pl.DataFrame:
    rows = [row for row in rows if len(row) == len(names)]
    return pl.DataFrame(
        {name: [row[field_index].strip() or None for row in rows] for field_index, name in enumerate(names)},
        schema=dict.fromkeys(names, pl.String),
    )


def examine_criteo(head: Head) -> Iterator[Candidate]:
    rows = [line.split("\t") for line in head.lines]
    fitting = [row for row in rows if _is_criteo(row)]
    categories = [cell for row in fitting for cell in row[-CRITEO_CATEGORIES:]]
    if fitting:
        hexadecimal = sum(_CRITEO_CATEGORY.fullmatch(cell) is not None for cell in categories)
        quality = SPECIFIC * hexadecimal / len(categories)
        yield Candidate("criteo", len(fitting), len(rows), quality, partial(_open_criteo, head, rows))


def _is_criteo(fields: Sequence[str]) -> bool:
    has_label = len(fields) == len(CRITEO_NAMES) and fields[0] in ("0", "1")
    return has_label and all(map(_CRITEO_COUNT.fullmatch, fields[1 : CRITEO_COUNTS + 1]))


def _open_criteo(head: Head, rows: Sequence[Sequence[str]]) -> DelimitedLog:
    requested, sample = head.options.columns, sample_of(rows, CRITEO_NAMES)
    if not requested.key:
        categories = CRITEO_NAMES[-CRITEO_CATEGORIES:]
        keys = tuple(name for name in categories if name not in requested.ignore)
        requested = replace(requested, key=keys)
    columns = resolve(requested, sample, lists=(), location=str(head.path))
    kinds = {name: HEX_KEY for name in columns.key if name.startswith("C")}
    return DelimitedLog(
        head.path,
        layout=layout_of(columns, sample, key_kinds=kinds),
        format="Criteo's TSV",
        has_header=False,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
        separator=TAB,
        names=CRITEO_NAMES,
    )


def examine_recbole(head: Head) -> Iterator[Candidate]:
    if any(map(_RECBOLE_FIELD.fullmatch, head.lines[0].split("\t"))):
        rows = [line.split("\t") for line in head.lines]
        yield Candidate("recbole", len(rows), len(rows), SPECIFIC, partial(_open_recbole, head, rows))


def _open_recbole(head: Head, rows: Sequence[Sequence[str]]) -> DelimitedLog:
    path, types = head.path, dict[str, str]()
    for name in rows[0]:
        field = _RECBOLE_FIELD.fullmatch(name.rstrip("\r"))
        if field is None or field[1] in types:
            kinds = "token, token_seq, float or float_seq"
            raise DataError(f"{path}, line 1: column {name!r}; expected NAME:TYPE once, of type {kinds}")
        types[field[1]] = field[2]
    names, requested, sample = tuple(types), head.options.columns, sample_of(rows[1:], tuple(types))
    tokens = tuple(name for name in names if types[name].startswith("token") and name not in requested.ignore)
    times = [name for name in _RECBOLE_TIME_NAMES if name in types and name not in requested.ignore]
    if not requested.key and requested.table is None and requested.iteration is None:
        requested = replace(requested, key=tokens, time=requested.time or next(iter(times), None))
    columns = resolve(requested, sample, lists=(), location=f"{path}, line 1")
    separators = {name: " " for name in columns.key if types[name].endswith("_seq")}
    return DelimitedLog(
        path,
        layout=layout_of(columns, sample, separators),
        format="RecBole's atomic file",
        has_header=True,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
        separator=TAB,
        names=names,
    )
