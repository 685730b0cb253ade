"""Tables as the control plane's compiled functions see them: one row of offsets and sizes each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch.memory.layout import TableLayout

COLUMNS = (
    "header",
    "buckets",
    "mask",
    "records",
    "stride",
    "key_words",
    "action",
    "parameters",
    "size",
    "is_ranked",
    "field_words",
    "bound_words",
    "rank",
    "link",
    "bounds",
    "groups",
    "group_rank",
    "group_entries",
    "group_stride",
    "order",
)
"""Names of attributes of `TableLayout`."""

LOG_COLUMN = "log"
"""Address of a log of changed words (int64 count, then word offsets), or 0."""
LOG_ENTRIES = 1 << 25
"""Capacity of the log, more than the updates of the largest message change."""

TABLE = np.dtype([(name, "i8") for name in (*COLUMNS, LOG_COLUMN)])

Row = Any  # a TABLE record, which numba types
Words = npt.NDArray[np.uint64]


def rows(tables: Iterable[TableLayout], log: int = 0) -> npt.NDArray[Any]:
    """Return one row for each table, in order; `log` is the address of their log of changed words."""
    columns = [(*(getattr(table, name) for name in COLUMNS), log) for table in tables]
    return np.array(columns, dtype=TABLE)
