"""A hot set by embedding table: the number of hot keys, and the share of the table's updates they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.access.steps import Steps
from foundation.logs.training import SplitUpdates


class TableShare(NamedTuple):
    table: str
    updates: int  # scored updates
    keys: int
    hot_keys: int
    share: float


def shares_by_table(steps: Steps, split: SplitUpdates, top_k: int) -> Iterator[TableShare]:
    updates = split.scored
    is_hot = find_hottest(split.training, top_k) & (split.training > 0)
    for index, table in enumerate(steps.tables):
        is_in_table = steps.table_of == index
        is_hot_in_table = is_in_table & is_hot
        table_updates = int(updates.sum(where=is_in_table))
        hot_updates = int(updates.sum(where=is_hot_in_table))
        yield TableShare(
            table,
            table_updates,
            int(is_in_table.sum()),
            int(is_hot_in_table.sum()),
            hot_updates / table_updates if table_updates else 0.0,
        )


def find_hottest(updates: NDArray[np.int64], top_k: int) -> NDArray[np.bool_]:
    """Return a mask of the `top_k` keys with the most updates; of equal numbers, the lower indices win.

    The function needs memory for only one copy of `updates`, because there may be 50 million keys.
    """
    if not 0 < top_k < len(updates):
        return np.full(len(updates), top_k > 0)
    threshold = np.partition(updates, len(updates) - top_k)[len(updates) - top_k]
    is_hot: NDArray[np.bool_] = updates > threshold
    ties = np.flatnonzero(updates == threshold)
    is_hot[ties[: top_k - int(is_hot.sum())]] = True
    return is_hot
