"""Logs of text with a row a line: read in blocks, and again line by line where a row is bad."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from foundation.logs.access.block import AccessBlock, AccessTables, BadRows
from foundation.logs.access.dialect import one_line_ends
from foundation.logs.access.log_files import StreamedLog, line_blocks
from foundation.logs.access.table_rows import Layout, RowConverter, TableLog

Report = tuple[int, str, str]
"""Line of a bad row, its problem, and what was expected."""
SPACES = " \t\r\f\v"


@dataclass
class TextTableLog(StreamedLog, TableLog):
    layout: Layout
    format: str
    has_header: bool
    comment_lines: int
    """Lines at the beginning of the file that are no rows."""
    ends_with_return: bool

    @property
    def has_quotes(self) -> bool:
        """Whether a line break within quotes belongs to a value."""
        return False

    @abstractmethod
    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        """Return the columns with a role of whole lines; None if a row is bad."""

    @abstractmethod
    def _parse_slowly(self, text: str, has_header: bool) -> tuple[pl.DataFrame, list[int], list[Report]]:
        """Return the columns of good rows, the line of each, and reports of the others; lines from 0."""

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        converter = RowConverter(self.layout, tables, first_row)
        line, has_header = 1, self.has_header
        with self.open() as stream:
            for block in line_blocks(stream, self.has_quotes, self.ends_with_return):
                data, comments = self._without_comments(block, line)
                if data.strip():
                    yield from self._convert(data, line + comments, has_header, converter, bad)
                    has_header = False
                line += block.count(b"\n")

    def _without_comments(self, data: bytes, line: int) -> tuple[bytes, int]:
        comments, begin = 0, 0
        while line + comments <= self.comment_lines and begin < len(data):
            end = data.find(b"\n", begin)
            begin, comments = (end + 1 if end >= 0 else len(data)), comments + 1
        return data[begin:], comments

    def _convert(
        self, data: bytes, line: int, has_header: bool, converter: RowConverter, bad: BadRows
    ) -> Iterator[AccessBlock]:
        frame = self._parse(data, has_header)
        blocks = None if frame is None else converter.blocks(frame)
        if frame is not None and blocks is not None:
            bad.rows += frame.height
            return blocks
        text = one_line_ends(data.decode("utf-8-sig" if line == 1 else "utf-8", "replace"))
        frame, lines, reports = self._parse_slowly(text, has_header)
        bad.rows += frame.height + len(reports)
        for number, problem, expected in reports:
            bad.add(self.path, "line", line + number, problem, expected)

        def report(row_index: int, problem: str, expected: str) -> None:
            bad.add(self.path, "line", line + lines[row_index], problem, expected)

        return converter.blocks(frame, report) or iter(())

    def _to_frame(self, rows: Sequence[Sequence[str]], names: Sequence[str]) -> pl.DataFrame:
        columns = [(name, names.index(name)) for name in self.layout.columns.names]
        return pl.DataFrame(
            {name: [row[index].strip(SPACES) or None for row in rows] for name, index in columns},
            schema=dict.fromkeys((name for name, _ in columns), pl.String),
        )
