"""Tables as the control plane's compiled functions see them: one row of offsets and sizes each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nativekit.records import Records, records_from_rows
from softswitch.memory.layout import TableLayout

LOG_ENTRIES = 1 << 25
"""Capacity of `Row.log` in changes: more than the updates of the largest message can make."""
LOG_WORDS = 1 + 2 * LOG_ENTRIES
"""Size of the log: the number of changes, then for each the offset of the word and its old value."""

Words = npt.NDArray[np.uint64]


class Row:
    """Offsets and sizes of a table, copied from the `TableLayout` attributes with these names, and `log`."""

    header: int
    buckets: int
    mask: int
    records: int
    stride: int
    key_words: int
    action: int
    parameters: int
    max_entries: int
    is_ranked: int
    field_words: int
    bound_words: int
    rank: int
    link: int
    bounds: int
    groups: int
    group_rank: int
    group_entries: int
    group_stride: int
    order: int
    log: int  # address of a log of changes (`LOG_WORDS`), or 0


def rows(tables: Iterable[TableLayout], log: int = 0) -> Records[Row]:
    *names, _log = Row.__annotations__  # in order of declaration: `log` is the last
    values_by_table = [(*(getattr(table, name) for name in names), log) for table in tables]
    return records_from_rows(Row, values_by_table)
