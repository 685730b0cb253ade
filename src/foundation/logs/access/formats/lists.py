"""Rows of different lengths: each has a number of keys, and may begin with the number of a row or user."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from foundation.logs.access.dialect import COMMA, SPACE, TAB, Candidate, Head, Separator, separator_of
from foundation.logs.access.formats.text_table import SPACES, Report, TextTableLog
from foundation.logs.access.resolve import resolve
from foundation.logs.access.table_rows import layout_of

_SEPARATORS = (SPACE, TAB, COMMA)
_QUALITY = 0.85
_REGULAR_QUALITY = 0.45
"""Quality if most rows have the same length, so that they are rather rows of a table."""
_REGULAR_SHARE = 0.6
_KEY = re.compile(r"[\w.@/#+-]*\d[\w.@/#+-]*")
_FIRST, _REST, _ALL = "1", "2+", "1+"  # names of the columns: by the positions of their values


@dataclass
class ListsLog(TextTableLog):
    separator: Separator
    names: tuple[str, ...]

    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        lines = [line for line in text.split("\n") if line.strip()]
        return self._columns(lines)

    def _parse_slowly(self, text: str, has_header: bool) -> tuple[pl.DataFrame, list[int], list[Report]]:
        numbered = [(number, line) for number, line in enumerate(text.split("\n")) if line.strip()]
        return self._columns([line for _, line in numbered]), [number for number, _ in numbered], []

    def _columns(self, lines: Sequence[str]) -> pl.DataFrame:
        cells = _cells_of(lines, self.separator, self.names)
        frame = pl.DataFrame(dict(zip(self.names, cells, strict=True)), dict.fromkeys(self.names, pl.String))
        return frame.select(self.layout.columns.names)


def _cells_of(lines: Sequence[str], separator: Separator, names: Sequence[str]) -> list[list[str | None]]:
    """Return the cells of each column, in which the values of a list are separated by one separator."""
    texts = [" ".join(line.split()) if separator.is_blank else line.strip(SPACES) for line in lines]
    if len(names) == 1:
        return [list(texts)]
    parts = [text.partition(separator.text) for text in texts]
    return [[first or None for first, _, _ in parts], [rest or None for _, _, rest in parts]]


def examine_lists(head: Head) -> Iterator[Candidate]:
    separators = _SEPARATORS if head.options.separator is None else (separator_of(head.options.separator),)
    for separator in separators:
        rows = [
            [value.strip() for value in separator.split_line(line) if value.strip()] for line in head.lines
        ]
        explained = sum(bool(row) and all(map(_KEY.fullmatch, row)) for row in rows)
        lengths = Counter(map(len, rows))
        is_regular = lengths.most_common(1)[0][1] > _REGULAR_SHARE * len(rows)
        if max(lengths) > 1:
            quality = _REGULAR_QUALITY if is_regular else _QUALITY
            yield Candidate("lists", explained, len(rows), quality, partial(_open_lists, head, separator))


def _open_lists(head: Head, separator: Separator) -> ListsLog:
    first = [separator.split_line(line)[0].strip() for line in head.lines]
    # A first value that no other row has is the number of a row, such as a user.
    names: tuple[str, ...] = (_ALL,)
    asked = {*head.options.columns.names, *head.options.columns.ignore}
    if asked & {_FIRST, _REST} or (_ALL not in asked and len(set(first)) == len(first) > 1):
        names = (_FIRST, _REST)
    cells = _cells_of(head.lines, separator, names)
    sample = pl.DataFrame(dict(zip(names, cells, strict=True)), dict.fromkeys(names, pl.String))
    requested = head.options.columns
    if not requested.key:
        requested = replace(requested, key=names[-1:])
    columns = resolve(requested, sample, (), f"{head.path}, line {head.comment_lines + 1}", False)
    layout = layout_of(columns, sample, {name: separator.text for name in columns.key if name != _FIRST})
    return ListsLog(
        head.path,
        layout=layout,
        format=f"lists of keys, {'spaces' if separator.is_blank else repr(separator.text)} between them",
        has_header=False,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
        separator=separator,
        names=names,
    )
