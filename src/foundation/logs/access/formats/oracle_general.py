"""libCacheSim's `oracleGeneral`: records of time, object, size, and the index of the object's next access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.block import KEY_EXPECTED, AccessBlock, AccessTables, BadRows, ReadOptions
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.log_files import StreamedLog
from foundation.protocol.header import NO_KEY

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
_NEVER = (-1, 2**63 - 1)  # values of `next` for an object that is not accessed again
_MAX_ACCESSES = 2**40  # maximum length of a trace; a record with a larger `next` is of another format
_RECORDS_AT_ONCE = 1 << 18


@dataclass
class OracleGeneralLog(StreamedLog):
    description: str = "libCacheSim's oracleGeneral; keys are objects"
    has_batches: bool = False

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        record = 1  # number of the first record of `data`
        with self.open() as stream:
            while data := stream.read(_RECORDS_AT_ONCE * RECORD.itemsize):
                trailing_bytes = len(data) % RECORD.itemsize
                records = np.frombuffer(data[: len(data) - trailing_bytes], RECORD)
                if trailing_bytes:
                    number, expected = record + len(records), f"{RECORD.itemsize} bytes"
                    bad.add(self.path, "record", number, f"{trailing_bytes} bytes", expected)
                keys = records["object"].astype(np.uint64)
                bad.rows += len(records) + bool(trailing_bytes)
                bad_indices = np.flatnonzero(keys == NO_KEY)
                for row in bad_indices.tolist():
                    bad.add(self.path, "record", record + row, f"object is {NO_KEY}", KEY_EXPECTED)
                rows = np.arange(len(keys), dtype=np.uint64) + np.uint64(first_row + record - 1)
                good_keys, good_rows = np.delete(keys, bad_indices), np.delete(rows, bad_indices)
                yield AccessBlock(good_keys, tables=None, order=None, group=good_rows, pulls=None)
                record += len(records)


def open_oracle_general(path: Path, head: bytes, options: ReadOptions) -> OracleGeneralLog | None:
    """Return the log if, in its head, times never decrease and each `next` is a later record or none."""
    records = np.frombuffer(head[: len(head) // RECORD.itemsize * RECORD.itemsize], RECORD)
    if not len(records) or not is_plausible(records):
        return None
    if options.columns != AccessColumns():
        raise DataError(
            f"{path}: --columns {options.columns}; expected none, as the fields of oracleGeneral are fixed"
        )
    return OracleGeneralLog(path)


def is_plausible(records: NDArray[np.void]) -> bool:
    next_indices, times = records["next"], records["time"].astype(np.int64)
    is_later = (next_indices > np.arange(len(records))) & (next_indices < _MAX_ACCESSES)
    return bool((np.diff(times) >= 0).all() and (is_later | np.isin(next_indices, _NEVER)).all())
