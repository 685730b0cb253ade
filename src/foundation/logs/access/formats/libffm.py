"""libffm training sets: `label field:index:value ...`; each field is a table, whose keys are the indices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from foundation.errors import DataError
from foundation.logs.access.block import (
    KEY_EXPECTED,
    AccessBlock,
    AccessTables,
    BadRows,
    key_in_table,
)
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.dialect import SPECIFIC, Candidate, Head
from foundation.logs.access.log_files import StreamedLog, line_blocks
from foundation.protocol.header import NO_KEY
from foundation.text import shortened

_LABEL = r"[-+]?\d+(?:\.\d*)?"
_FEATURE = r"\d+:\d+:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SAMPLE = re.compile(rf"\s*{_LABEL}(?:\s+{_FEATURE})*\s*")
_PAIR = re.compile(r"(\d+):(\d+):")
_EXPECTED = "a libffm sample, label field:index:value ... (--format, if this is another format)"


@dataclass
class LibffmLog(StreamedLog):
    ends_with_return: bool = False
    description: str = "libffm; keys are indices, a table for each field"
    has_batches: bool = False

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        row, line = first_row, 1
        with self.open() as stream:
            for data in line_blocks(stream, has_quotes=False, ends_with_return=self.ends_with_return):
                fields: list[int] = []
                indices: list[int] = []
                lengths: list[int] = []
                for number, sample in enumerate(data.decode("utf-8", "replace").split("\n"), line):
                    if not sample.strip():
                        continue
                    bad.rows += 1
                    if _SAMPLE.fullmatch(sample) is None:
                        bad.add(self.path, "line", number, shortened(repr(sample)), _EXPECTED)
                        continue
                    pairs = [(int(field), int(index)) for field, index in _PAIR.findall(sample)]
                    if (largest := max((index for _, index in pairs), default=0)) >= NO_KEY:
                        bad.add(self.path, "line", number, f"index {largest}", KEY_EXPECTED)
                        continue
                    fields += [field for field, _ in pairs]
                    indices += [index for _, index in pairs]
                    lengths.append(len(pairs))
                line += data.count(b"\n")
                rows = np.arange(row, row + len(lengths), dtype=np.uint64)
                row += len(lengths)
                keys, numbers = np.array(indices, np.uint64), np.array(fields, np.uint64)
                table_of_access = np.zeros(len(keys), np.uint16)
                for number in np.unique(numbers).tolist():
                    name, of_field = f"field {number}", numbers == number
                    table_of_access[of_field] = tables.index(name)
                    keys[of_field] = key_in_table(keys[of_field], name)
                yield AccessBlock(
                    keys, table_of_access, order=None, group=np.repeat(rows, lengths), pulls=None
                )


def examine_libffm(head: Head) -> Iterator[Candidate]:
    samples = [line for line in head.lines if _SAMPLE.fullmatch(line) is not None]
    if any(":" in line for line in samples):
        yield Candidate("libffm", len(samples), len(head.lines), SPECIFIC, partial(_open_libffm, head))


def _open_libffm(head: Head) -> LibffmLog:
    if head.options.columns != AccessColumns():
        raise DataError(
            f"{head.path}: --columns {head.options.columns}; expected none, as libffm has no named columns"
        )
    return LibffmLog(head.path, head.ends_with_return)
