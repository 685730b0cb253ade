"""libsvm training sets: the indices of a sample are its keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from foundation.logs.access.block import AccessBlock, AccessTables, BadRows, ReadOptions
from foundation.logs.access.columns import AccessColumns
from foundation.logs.access.formats.delimited import delimiter_of, head_lines
from foundation.logs.access.source import StreamedLog
from foundation.logs.libsvm import LABELS, read_samples

_SAMPLE = re.compile(r"\s*[-+]?\d+(\.\d*)?(\s+[^\s:,;|]+:\S*)*\s*")
_SAMPLES_AT_ONCE = 1 << 14


@dataclass
class LibsvmLog(StreamedLog):
    description: str = "libsvm; keys are indices"
    has_batches: bool = False

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        row = first_row
        with self.open() as stream:
            samples = read_samples(self.path, stream, bad if bad.skip else None)
            while part := [indices for _, indices, _ in islice(samples, _SAMPLES_AT_ONCE)]:
                lengths = [len(indices) for indices in part]
                keys = np.array([index for indices in part for index in indices], np.uint64)
                rows = np.arange(row, row + len(part), dtype=np.uint64)
                yield AccessBlock(keys, tables=None, order=None, group=np.repeat(rows, lengths), pulls=None)
                row += len(part)


def open_libsvm(path: Path, head: bytes, options: ReadOptions) -> LibsvmLog | None:
    line = next((text for head_line in head_lines(head) if (text := head_line.partition("#")[0]).strip()), "")
    is_sample = _SAMPLE.fullmatch(line) and (":" in line or line.strip() in LABELS)
    return LibsvmLog(path) if is_sample and options.columns == AccessColumns() else None


def open_unknown(path: Path, head: bytes, options: ReadOptions) -> LibsvmLog | None:
    """Return a libsvm log for text without delimiters, so that the parser reports its first bad line."""
    lines = head_lines(head)
    return None if not lines or delimiter_of(lines[0]) else LibsvmLog(path)
