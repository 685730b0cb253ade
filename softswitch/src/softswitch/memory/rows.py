"""Tables as compiled functions of the control plane know them: a row each of word offsets and sizes."""

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
"""Each is the attribute of `TableLayout` by that name."""

LOG = "log"
"""And the address of a log of changed words, 0 for none: int64 count, then word offsets."""
LOG_ENTRIES = 1 << 25
"""More than the updates of the largest message change."""

TABLE = np.dtype([(name, "i8") for name in (*COLUMNS, LOG)])

Row = Any  # a TABLE record
Words = npt.NDArray[np.uint64]


def rows(tables: Iterable[TableLayout], log: int = 0) -> npt.NDArray[Any]:
    """A row for each table, in order; their changes go into the log at an address."""
    columns = [(*(getattr(table, name) for name in COLUMNS), log) for table in tables]
    return np.array(columns, dtype=TABLE)
