"""One array of JSON: of objects, whose fields are columns, of lists of keys, or of keys; an element is a row.

Elements are decoded one after the other, so that memory is bounded by a block and the largest element.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from foundation.errors import DataError
from foundation.logs.access import log_files
from foundation.logs.access.block import AccessBlock, AccessTables, BadRows, ReadOptions
from foundation.logs.access.dialect import SAMPLE_LINES
from foundation.logs.access.formats.json_lines import LIST, Shape, frame_of, keys_in, shape_of
from foundation.logs.access.log_files import Stream, StreamedLog, open_stream
from foundation.logs.access.table_rows import Layout, RowConverter, TableLog
from foundation.text import one_line, shortened

_VALUE = "value"
"""Name of the column of an array of keys."""
_SPACE = re.compile(r"[ \t\r\n]*")
_FIRST = re.compile(r'[{\["\d\-tfn\]]')  # of what follows the bracket of an array
_DECODER = json.JSONDecoder()
_MAX_CUT = 16
"""Characters before the end of what was read in which a number, a literal or an escape may be cut off."""
_MAX_ELEMENT = 1 << 26
_SAMPLE_CHARACTERS = 1 << 20
_SHOWN = 20  # characters that an error shows
_EXPECTED: dict[type, str] = {
    dict: "an object, as most elements are",
    list: "a list of keys, as most elements are",
    str: "a key, as most elements are",
}
"""Type of most elements -> the words of an error for what others should be; `str` stands for all keys."""


def is_json_array(head: bytes) -> bool:
    """Return whether a text is one array, given its first bytes; JSON lines of lists are none."""
    text = head.decode("utf-8-sig", "replace").strip()
    inner = text[1:].lstrip()
    if not text.startswith("[") or (inner and _FIRST.match(inner) is None):
        return False
    if inner.startswith("{"):
        return True
    try:
        _, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        # The array goes on in later lines, or the text is cut off, or it is another format.
        return "\n" in text[: error.pos] or "\n" not in text
    except (ValueError, RecursionError):
        return True
    return end == len(text)


class _Elements:
    """The elements of an array that have not been read yet."""

    def __init__(self, path: Path, stream: Stream) -> None:
        self._path, self._stream = path, stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._text, self._at, self._has_ended = "", 0, False
        self._dropped_lines = self._dropped_in_line = 0
        self.characters = 0
        """Characters of the elements so far."""

    def __iter__(self) -> Iterator[object]:
        number = 1
        self._take("[", number)
        if self._peek() == "]":
            self._take("]", number)
        else:
            separator = ","
            while separator == ",":
                yield self._element(number)
                separator = self._take(",]", number)
                number += 1
        if self._peek():
            raise self._error(self._at, "the file goes on after the array", number - 1)

    def _element(self, number: int) -> object:
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _MAX_CUT
                if len(self._text) - self._at > _MAX_ELEMENT or not (is_cut and self._read()):
                    raise self._error(error.pos, error.msg, number) from None
                continue
            except (ValueError, RecursionError) as error:
                raise self._error(self._at, str(error), number) from None
            if end > len(self._text) - _MAX_CUT and self._read():
                continue
            self.characters += end - self._at
            self._at = end
            return value

    def _peek(self) -> str:
        """Return the next character that is no space; an empty text at the end of the file."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # always matches
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read():
                return ""

    def _take(self, expected: str, number: int) -> str:
        found = self._peek()
        if not found or found not in expected:
            raise self._error(self._at, f"Expecting {' or '.join(map(repr, expected))}", number)
        self._at += 1
        return found

    def _read(self) -> bool:
        """Drop what was decoded and read a further block, or as much again; return whether it may be more."""
        if self._has_ended:
            return False
        self._dropped_lines += self._text.count("\n", 0, self._at)
        line_start = self._text.rfind("\n", 0, self._at) + 1
        self._dropped_in_line = self._at - line_start + (0 if line_start else self._dropped_in_line)
        remainder = self._text[self._at :]
        data = self._stream.read(max(log_files.BLOCK_BYTES, len(remainder)))
        self._has_ended = not data
        self._text, self._at = remainder + self._decode(data, self._has_ended), 0
        return True

    def _error(self, position: int, problem: str, number: int) -> DataError:
        line = self._dropped_lines + self._text.count("\n", 0, position) + 1
        line_start = self._text.rfind("\n", 0, position) + 1
        column = position - line_start + (0 if line_start else self._dropped_in_line) + 1
        found = self._text[position : position + _SHOWN]
        shown = repr(found) if found else "the end of the file"
        return DataError(
            f"{self._path}, line {line}, column {column}: element {number:,} of the array is no JSON: "
            f"{one_line(problem)}: {shown}"
        )


def _type_of(element: object) -> type:
    return type(element) if isinstance(element, dict | list) else str


def _row_of(element: object, kind: type) -> Mapping[str, object] | None:
    """Return an element as an object, or None if it is not of the kind that most are."""
    if _type_of(element) is not kind:
        return None
    if isinstance(element, dict):
        return element
    return keys_in(element) if isinstance(element, list) else {_VALUE: element}


@dataclass
class JsonArrayLog(StreamedLog, TableLog):
    layout: Layout
    shape: Shape
    kind: type
    format: str = "a JSON array"

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        converter = RowConverter(self.layout, tables, first_row)
        with self.open() as stream:
            elements = _Elements(self.path, stream)
            numbered = enumerate(elements, 1)
            while part := list(_part_of(numbered, elements)):
                yield from self._convert(part, converter, bad)

    def _convert(
        self, part: list[tuple[int, object]], converter: RowConverter, bad: BadRows
    ) -> Iterator[AccessBlock]:
        objects, numbers = list[Mapping[str, object]](), list[int]()
        bad.rows += len(part)
        for number, element in part:
            if (found := _row_of(element, self.kind)) is None:
                bad.add(self.path, "element", number, shortened(json.dumps(element)), _EXPECTED[self.kind])
                continue
            objects.append(found)
            numbers.append(number)

        def report(row_index: int, problem: str, expected: str) -> None:
            bad.add(self.path, "element", numbers[row_index], problem, expected)

        frame = frame_of(objects, self.shape, self.layout.columns.names)
        return converter.blocks(frame, report) or iter(())


def _part_of(numbered: Iterator[tuple[int, object]], elements: _Elements) -> Iterator[tuple[int, object]]:
    """Yield the next elements, with their numbers, of about a block."""
    begin = elements.characters
    for each in numbered:
        yield each
        if elements.characters - begin >= log_files.BLOCK_BYTES:
            return


def open_json_array(path: Path, options: ReadOptions) -> JsonArrayLog:
    """Return the log in a file that is one array. Raises `DataError`."""
    with open_stream(path) as stream:
        elements = _Elements(path, stream)
        sample = list[object]()
        for element in islice(elements, SAMPLE_LINES):
            sample.append(element)
            if elements.characters > _SAMPLE_CHARACTERS:
                break
    if not sample:
        raise DataError(f"{path}: an empty array of JSON; expected objects, lists of keys, or keys in it")
    [(kind, _)] = Counter(map(_type_of, sample)).most_common(1)
    objects = [found for element in sample if (found := _row_of(element, kind)) is not None]
    requested = options.columns
    if kind is not dict and not requested.key:
        requested = replace(requested, key=(LIST if kind is list else _VALUE,))
    layout, shape = shape_of(path, objects, requested, f"{path}, element 1")
    return JsonArrayLog(path, layout, shape, kind)
