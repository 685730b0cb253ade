"""Formats of access logs; a file is read by the first one whose `open` function accepts the file's head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from foundation.errors import DataError
from foundation.logs.access.block import AccessLog, ReadOptions
from foundation.logs.access.formats.delimited import open_criteo, open_delimited, open_recbole
from foundation.logs.access.formats.libsvm import open_libsvm, open_unknown
from foundation.logs.access.formats.oracle_general import open_oracle_general
from foundation.logs.access.formats.parquet import open_parquet
from foundation.logs.access.source import read_head
from foundation.logs.update_log import CONTROL_CHARACTERS, PARQUET_MAGIC

Open = Callable[[Path, bytes, ReadOptions], AccessLog | None]
"""Returns the log, or None if a file's decompressed head is of another format. Raises `DataError`."""
# In the order in which they are tried: `open_unknown` takes what no other format does.
BINARY_FORMATS: tuple[Open, ...] = (open_parquet, open_oracle_general)
TEXT_FORMATS: tuple[Open, ...] = (open_criteo, open_recbole, open_libsvm, open_delimited, open_unknown)
EXPECTED = (
    "expected a log in CSV, TSV, Parquet, Criteo's TSV, RecBole's atomic files or libCacheSim's "
    "oracleGeneral, or a libsvm training set"
)


def open_log(path: Path, options: ReadOptions) -> AccessLog:
    head = read_head(path)
    if not head.strip():
        raise DataError(f"{path}: is empty; {EXPECTED}")
    is_binary = head.startswith(PARQUET_MAGIC) or CONTROL_CHARACTERS.search(head) is not None
    for open_format in BINARY_FORMATS if is_binary else TEXT_FORMATS:
        if (log := open_format(path, head, options)) is not None:
            return log
    problem = "is of no known format"
    if is_binary:
        problem = "is neither text nor Parquet, which begins with PAR1, nor oracleGeneral"
    raise DataError(f"{path}: {problem}; {EXPECTED}")
