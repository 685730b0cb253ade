"""Logs of web servers in the Common and Combined Log Format: the path of a request is its key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from foundation.logs.access.dialect import SPECIFIC, Candidate, Head
from foundation.logs.access.formats.text_table import Report, TextTableLog
from foundation.logs.access.resolve import resolve
from foundation.logs.access.table_rows import layout_of
from foundation.text import shortened

NAMES = ("host", "user", "time", "method", "path", "status", "bytes")
_LINE = r'^(\S+) \S+ (.*?) \[([^\]]+)\] "(?:(\S+) +)?(.*?)(?: +HTTP/[\d.]+)?" (\d{3}|-) (\d+|-)'
_EXPECTED = "a line of the Common Log Format (--format, if this is another format)"


@dataclass
class WebLog(TextTableLog):
    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        lines = data.decode("utf-8", "replace").split("\n")
        frame = _parse_lines(lines[:-1] if not lines[-1] else lines)
        return None if frame["path"].null_count() else frame.select(self.layout.columns.names)

    def _parse_slowly(self, text: str, has_header: bool) -> tuple[pl.DataFrame, list[int], list[Report]]:
        numbered = [(number, line) for number, line in enumerate(text.split("\n")) if line.strip()]
        frame = _parse_lines([line for _, line in numbered])
        is_good = frame["path"].is_not_null()
        reports = [
            (number, shortened(repr(line)), _EXPECTED)
            for (number, line), each_is_good in zip(numbered, is_good, strict=True)
            if not each_is_good
        ]
        good = [number for (number, _), each_is_good in zip(numbered, is_good, strict=True) if each_is_good]
        return frame.filter(is_good).select(self.layout.columns.names), good, reports


def _parse_lines(lines: Sequence[str]) -> pl.DataFrame:
    groups = pl.Series(lines, dtype=pl.String).str.extract_groups(_LINE).struct.unnest()
    return groups.rename(dict(zip(groups.columns, NAMES, strict=True)))


def examine_web_log(head: Head) -> Iterator[Candidate]:
    explained = sum(re.match(_LINE, line) is not None for line in head.lines)
    if explained:
        yield Candidate("web", explained, len(head.lines), SPECIFIC, partial(_open_web_log, head))


def _open_web_log(head: Head) -> WebLog:
    requested, sample = head.options.columns, _parse_lines(head.lines)
    if not requested.key:
        requested = replace(requested, key=("path",))
    if requested.time is None and "time" not in requested.ignore:
        requested = replace(requested, time="time")
    columns = resolve(requested, sample, (), f"{head.path}, line {head.comment_lines + 1}")
    return WebLog(
        head.path,
        layout=layout_of(columns, sample),
        format="a web server's log",
        has_header=False,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
    )
