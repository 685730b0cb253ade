"""libsvm training sets: the indices of a sample are its keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from foundation.errors import DataError
from foundation.logs.access.block import AccessBlock, AccessTables, BadRows
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.dialect import SPECIFIC, Candidate, Head
from foundation.logs.access.log_files import StreamedLog
from foundation.logs.libsvm_reader import read_samples

_SAMPLE = re.compile(r"\s*[-+]?\d+(\.\d*)?(\s+[-+]?\d+:[^\s:]*)*\s*")
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


def examine_libsvm(head: Head) -> Iterator[Candidate]:
    lines = [text for line in head.lines if (text := line.partition("#")[0]).strip()]
    samples = [line for line in lines if _SAMPLE.fullmatch(line) is not None]
    if any(":" in line for line in samples):
        yield Candidate("libsvm", len(samples), len(lines), SPECIFIC, partial(_open_libsvm, head))


def _open_libsvm(head: Head) -> LibsvmLog:
    if head.options.columns != AccessColumns():
        raise DataError(
            f"{head.path}: --columns {head.options.columns}; expected none, as libsvm has no named columns"
        )
    return LibsvmLog(head.path)
