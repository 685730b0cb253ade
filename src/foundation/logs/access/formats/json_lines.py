"""JSON lines: an object a line, whose fields are columns, or a list of keys; a field may hold such a list."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from foundation.errors import DataError
from foundation.logs.access.dialect import SPECIFIC, Candidate, Head
from foundation.logs.access.formats.text_table import Report, TextTableLog
from foundation.logs.access.resolve import resolve
from foundation.logs.access.table_rows import layout_of
from foundation.logs.update_log import UNREADABLE
from foundation.text import shortened

_LIST = "list"
"""Name of the column of lines that are lists."""
_EXPECTED = "a JSON object (--format, if this is another format)"


@dataclass
class JsonLog(TextTableLog):
    list_names: frozenset[str] = field(default_factory=frozenset)

    def _parse(self, data: bytes, has_header: bool) -> pl.DataFrame | None:
        if data.lstrip().startswith(b"["):
            return None
        try:
            frame = pl.read_ndjson(io.BytesIO(data), schema=self._schema)
        except UNREADABLE:
            return None
        return frame if frame.height == data.count(b"\n") + (not data.endswith(b"\n")) else None

    @property
    def _schema(self) -> dict[str, pl.DataType]:
        of_list = pl.List(pl.String)
        return {
            name: of_list if name in self.list_names else pl.String() for name in self.layout.columns.names
        }

    def _parse_slowly(self, text: str, has_header: bool) -> tuple[pl.DataFrame, list[int], list[Report]]:
        objects: list[Mapping[str, object]] = []
        lines: list[int] = []
        reports: list[Report] = []
        for number, line in enumerate(text.split("\n")):
            if not line.strip():
                continue
            found = object_in(line)
            if found is None:
                reports.append((number, shortened(repr(line)), _EXPECTED))
                continue
            objects.append(found)
            lines.append(number)
        return _to_frame(objects, self._schema), lines, reports


def object_in(line: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return {_LIST: value}
    return value if isinstance(value, dict) else None


def _to_frame(objects: Sequence[Mapping[str, object]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
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
    return value if isinstance(value, str) else json.dumps(value)


def examine_json(head: Head) -> Iterator[Candidate]:
    explained = sum(
        line.lstrip().startswith(("{", "[")) and object_in(line) is not None for line in head.lines
    )
    if explained:
        yield Candidate("json", explained, len(head.lines), SPECIFIC, partial(_open_json, head))


def _open_json(head: Head) -> JsonLog:
    objects = [found for line in head.lines if (found := object_in(line)) is not None]
    names = dict.fromkeys(name for each in objects for name in each)
    list_names = frozenset(
        name for name in names if any(isinstance(each.get(name), list) for each in objects)
    )
    nested = {name for name in names if any(isinstance(each.get(name), dict) for each in objects)}
    if not names:
        raise DataError(f"{head.path}: expected JSON objects with fields, got empty ones")
    schema = {name: pl.List(pl.String) if name in list_names else pl.String() for name in names}
    sample = _to_frame(objects, schema)
    requested = head.options.columns
    for name in requested.key:
        if name in nested:
            raise DataError(f"{head.path}: --columns key={name}; expected a field of values, not of objects")
    is_list_of_keys = [name for name in list_names if _has_atoms(sample[name])]
    columns = resolve(requested, sample, is_list_of_keys, f"{head.path}, line {head.comment_lines + 1}")
    return JsonLog(
        head.path,
        layout=layout_of(columns, sample),
        format="JSON lines",
        has_header=False,
        comment_lines=head.comment_lines,
        ends_with_return=head.ends_with_return,
        list_names=list_names,
    )


def _has_atoms(lists: pl.Series) -> bool:
    """Return whether lists have integers, which are keys without being named as such."""
    values = lists.filter(lists.list.len() > 0).explode()
    return len(values) > 0 and bool(values.str.contains(r"^\d+$").all())
