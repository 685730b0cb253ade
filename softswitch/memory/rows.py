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

TABLE = np.dtype([(name, "i8") for name in COLUMNS])

Row = Any  # a TABLE record
Words = npt.NDArray[np.uint64]


def rows(tables: Iterable[TableLayout]) -> npt.NDArray[Any]:
    """A row for each table, in order."""
    return np.array([tuple(getattr(table, name) for name in COLUMNS) for table in tables], dtype=TABLE)
