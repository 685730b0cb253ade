"""JSON lines: an object a line, whose fields are columns, or a list of keys; a field may hold such a list."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from foundation.errors import DataError
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.dialect import SPECIFIC, Candidate, Head
from foundation.logs.access.formats.text_table import Report, TextTableLog
from foundation.logs.access.resolve import resolve
from foundation.logs.access.table_rows import Layout, layout_of
from foundation.logs.update_log import UNREADABLE
from foundation.text import shortened

LIST = "list"
"""Name of the column of lines that are lists."""
_EXPECTED = "a JSON object (--format, if this is another format)"
Shape = Mapping[str, pl.DataType]
"""The type of each field: a text, or a list of texts."""


@dataclass
class JsonLog(TextTableLog):
    shape: Shape = field(default_factory=dict)

    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        if data.lstrip().startswith(b"["):
            return None
        schema = {name: self.shape[name] for name in self.layout.columns.names}
        try:
            frame = pl.read_ndjson(io.BytesIO(data), schema=schema)
        except UNREADABLE:
            return None
        return frame if frame.height == data.count(b"\n") + (not data.endswith(b"\n")) else None

    def _parse_slowly(self, text: str, has_header: bool) -> tuple[pl.DataFrame, list[int], list[Report]]:
        objects: list[Mapping[str, object]] = []
        lines: list[int] = []
        reports: list[Report] = []
        for number, line in enumerate(text.split("\n")):
            if not line.strip():
                continue
            found = _object_in(line)
            if found is None:
                reports.append((number, shortened(repr(line)), _EXPECTED))
                continue
            objects.append(found)
            lines.append(number)
        return frame_of(objects, self.shape, self.layout.columns.names), lines, reports


def _object_in(line: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return keys_in(value)
    return value if isinstance(value, dict) else None


def keys_in(values: Sequence[object]) -> Mapping[str, object] | None:
    """Return a list of keys as an object; None if it has other values."""
    return None if any(isinstance(each, dict | list) for each in values) else {LIST: values}


def frame_of(objects: Sequence[Mapping[str, object]], shape: Shape, names: Iterable[str]) -> pl.DataFrame:
    """Return the named fields of objects, as texts."""
    schema = {name: shape[name] for name in names}
    columns = {
        name: [_cell(each.get(name), isinstance(kind, pl.List)) for each in objects]
        for name, kind in schema.items()
    }
    return pl.DataFrame(columns, schema=schema)


def _cell(value: object, is_list: bool) -> object:
    if is_list:
        values = value if isinstance(value, list) else [] if value is None else [value]
        return [_text(each) for each in values if each is not None]
    return None if value is None or value == "" else _text(value)


def _text(value: object) -> str:
    if type(value) is int:  # which most are, and `json.dumps` takes ten times as long
        return str(value)
    return value if isinstance(value, str) else json.dumps(value)


def examine_json(head: Head) -> Iterator[Candidate]:
    explained = sum(
        line.lstrip().startswith(("{", "[")) and _object_in(line) is not None for line in head.lines
    )
    if explained:
        yield Candidate("json", explained, len(head.lines), SPECIFIC, partial(_open_json, head))


def _open_json(head: Head) -> JsonLog:
    objects = [found for line in head.lines if (found := _object_in(line)) is not None]
    location = f"{head.path}, line {head.comment_lines + 1}"
    layout, shape = shape_of(head.path, objects, head.options.columns, location)
    return JsonLog(
        head.path,
        layout=layout,
        format="JSON lines",
        has_header=False,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
        shape=shape,
    )


def shape_of(
    path: Path, objects: Sequence[Mapping[str, object]], requested: AccessColumns, location: str
) -> tuple[Layout, Shape]:
    """Return the columns of a log that begins with these objects, and the types of their fields."""
    names = dict.fromkeys(name for each in objects for name in each)
    nested = {name for name in names if any(isinstance(each.get(name), dict) for each in objects)}
    if not names:
        raise DataError(f"{path}: expected JSON objects with fields, got empty ones")
    shape: Shape = {
        name: pl.List(pl.String) if any(isinstance(each.get(name), list) for each in objects) else pl.String()
        for name in names
    }
    sample = frame_of(objects, shape, names)
    for name in requested.key:
        if name in nested:
            raise DataError(f"{path}: --columns key={name}; expected a field of values, not of objects")
    lists = [name for name, kind in shape.items() if isinstance(kind, pl.List) and _has_atoms(sample[name])]
    columns = resolve(requested, sample, lists, location)
    return layout_of(columns, sample), shape


def _has_atoms(lists: pl.Series) -> bool:
    """Return whether lists have integers, which are keys without being named as such."""
    values = lists.filter(lists.list.len() > 0).explode()
    return len(values) > 0 and bool(values.str.contains(r"^\d+$").all())
