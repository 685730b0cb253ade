"""The first lines of a text, and how well each format explains them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from foundation.logs.access.block import AccessLog, ReadOptions

TEXT_FORMATS = ("criteo", "recbole", "json", "libffm", "libsvm", "web", "table", "lists", "column")
"""Values of --format; of text formats with the same score, the first is taken."""
BINARY_FORMATS = ("parquet", "arrow", "oracle-general")
FORMATS = (*TEXT_FORMATS, *BINARY_FORMATS)
SAMPLE_LINES = 1000
MIN_SCORE = 0.3
"""Score from which on a format may be chosen."""
SPECIFIC = 1.0
"""Quality of a format whose rows no other one has by chance."""
_LONE_RETURN = re.compile(r"\r(?!\n)")
_CUT_HEAD_BYTES = 1 << 15
"""Size above which a head may be the beginning of a longer file, so that its last line may be cut off."""
_COMMENT = re.compile(r"\s*$|[#%]|@(relation|attribute|data)\b", re.IGNORECASE)
"""Empty lines, comments, and the header of Weka's ARFF, before the first row."""
_ARFF_NAME = re.compile(r"@attribute\s+(?:'([^']*)'|(\S+))", re.IGNORECASE)
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)


class Candidate(NamedTuple):
    """A format that may be that of a text."""

    format: str  # as --format names it
    explained: int  # rows of the head that fit
    rows: int
    quality: float  # from 0 to 1: how improbable it is that rows of another format fit
    open: Callable[[], AccessLog]

    @property
    def score(self) -> float:
        return self.quality * self.explained / max(self.rows, 1)


@dataclass(frozen=True)
class Head:
    """The first lines of a text that are not empty, without the comments before them."""

    path: Path
    lines: tuple[str, ...]
    names: tuple[str, ...]  # of the columns, in a header of ARFF
    last_comment: str | None  # before the first line: it may name the columns
    comment_lines: int  # lines of the file up to the last comment before the first line
    ends_with_return: bool  # whether each line ends with a carriage return alone
    options: ReadOptions


Examine = Callable[[Head], Iterator[Candidate]]
"""Yields the ways in which a format may explain a head."""


def head_of(path: Path, data: bytes, options: ReadOptions) -> Head:
    ends_with_return = b"\n" not in data and b"\r" in data
    if ends_with_return:
        data = data.replace(b"\r", b"\n")
    text = one_line_ends(data.decode("utf-8-sig", "replace"))
    lines = re.split(r"\r?\n", text)
    if len(lines) > 1 and not text.endswith("\n") and len(data) > _CUT_HEAD_BYTES:
        lines.pop()
    leading = len(list(takewhile(_COMMENT.match, lines)))
    comments = [line for line in lines[:leading] if line.strip()]
    content = [line for line in lines[leading:] if line.strip()][:SAMPLE_LINES]
    if not content or not comments:  # lines that begin like comments are rows if there are no others
        rows = tuple(line for line in lines if line.strip())[:SAMPLE_LINES]
        return Head(path, rows, (), None, 0, ends_with_return, options)
    names = tuple(match[1] or match[2] for line in comments if (match := _ARFF_NAME.match(line)))
    return Head(path, tuple(content), names, comments[-1], leading, ends_with_return, options)


def one_line_ends(text: str) -> str:
    """Return the text with a space for each carriage return that ends no line."""
    return _LONE_RETURN.sub(" ", text)


@dataclass(frozen=True, slots=True)
class Separator:
    """What separates the values of a line; a space stands for any number of spaces and tabs."""

    text: str
    title: str
    has_quotes: bool = True

    @property
    def is_blank(self) -> bool:
        return self.text == " "

    def split(self, lines: Sequence[str]) -> list[list[str]]:
        """Return the values of each row that is not empty; a row in quotes may be several lines."""
        if self.has_quotes:
            return [row for row in csv.reader(lines, delimiter=self.text) if row]
        return [self.split_line(line) for line in lines if line.strip()]

    def split_line(self, line: str) -> list[str]:
        if self.is_blank:
            return line.split()
        return line.split(self.text) if self.text else [line]

    def without_quotes(self) -> Separator:
        return Separator(self.text, self.title, has_quotes=False)


COMMA, TAB = Separator(",", "CSV"), Separator("\t", "TSV")
SPACE = Separator(" ", "text with spaces", has_quotes=False)
WHOLE_LINE = Separator("", "a value a line", has_quotes=False)
SEPARATORS = (
    COMMA,
    TAB,
    Separator(";", "CSV with semicolons"),
    Separator("|", "text with vertical bars"),
    Separator("::", "text with double colons", has_quotes=False),
    SPACE,
)
_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}


def separator_of(name: str) -> Separator:
    """Return the separator that an option names: itself, or `tab`, `space`, `comma`, `semicolon`, `bar`."""
    text = _NAMES.get(name, name)
    for separator in SEPARATORS:
        if separator.text == text:
            return separator
    return Separator(text, f"text with {text!r} between values", has_quotes=len(text) == 1)
