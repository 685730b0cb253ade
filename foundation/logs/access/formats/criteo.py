"""Criteo's click logs: TSV without a header; a label, 13 counts and 26 hex categories, which may be empty."""

from __future__ import annotations

import re
from pathlib import Path

from foundation.logs.access.block import ReadOptions
from foundation.logs.access.columns import AccessColumns, resolve
from foundation.logs.access.formats.delimited import DelimitedLog, head_lines, sample_of
from foundation.logs.access.rows import layout_of
from foundation.logs.access.values import HEX_KEY

COUNTS, CATEGORIES = 13, 26
NAMES = (
    "label",
    *(f"I{number}" for number in range(1, COUNTS + 1)),
    *(f"C{number}" for number in range(1, CATEGORIES + 1)),
)
_HEX = re.compile(r"[0-9a-fA-F]*")
_COUNT = re.compile(r"(-?\d+)?")


def open_criteo(path: Path, head: bytes, options: ReadOptions) -> DelimitedLog | None:
    lines = head_lines(head)
    fields = lines[0].split("\t") if lines else []
    if len(fields) != len(NAMES) or fields[0] not in ("0", "1"):
        return None
    counts, categories = fields[1 : COUNTS + 1], fields[-CATEGORIES:]
    if not all(map(_COUNT.fullmatch, counts)) or not all(map(_HEX.fullmatch, categories)):
        return None
    requested = options.columns if options.columns.key else AccessColumns(key=NAMES[-CATEGORIES:])
    columns = resolve(requested, NAMES, lists=(), location=str(path))
    kinds = {name: HEX_KEY for name in columns.key if name.startswith("C")}
    layout = layout_of(columns, sample_of(lines, NAMES, "\t"), separators={}, key_kinds=kinds)
    return DelimitedLog(
        path, delimiter="\t", names=NAMES, has_header=False, layout=layout, format="Criteo's TSV"
    )
