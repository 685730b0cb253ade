"""RecBole's atomic files (`.inter`, `.user`, ...): TSV whose header has the type of each column.

`token` is a key, `token_seq` a list of keys separated by spaces, `float` and `float_seq` are no keys
(https://recbole.io/docs/user_guide/data/atomic_files.html).
"""

from __future__ import annotations

import re
from pathlib import Path

from foundation.errors import DataError
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.columns import AccessColumns, resolve
from foundation.logs.access.formats.delimited import DelimitedLog, head_lines, sample_of
from foundation.logs.access.rows import layout_of

_FIELD = re.compile(r"(.+):(token|token_seq|float|float_seq)")
_TIME_NAMES = ("timestamp", "time", "ts")


def open_recbole(path: Path, head: bytes, options: ReadOptions) -> DelimitedLog | None:
    lines = head_lines(head)
    fields = [_FIELD.fullmatch(name) for name in lines[0].split("\t")] if lines else []
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
    time = next((name for name in _TIME_NAMES if name in types), None)
    if not requested.key and requested.table is None and requested.iteration is None:
        requested = AccessColumns(key=tokens, time=requested.time or time)
    columns = resolve(requested, names, lists=(), location=f"{path}, line 1")
    separators = {name: " " for name in columns.key if types[name].endswith("_seq")}
    layout = layout_of(columns, sample_of(lines[1:], names, "\t"), separators)
    return DelimitedLog(
        path, delimiter="\t", names=names, has_header=True, layout=layout, format="RecBole's atomic file"
    )
