"""A hot set by embedding table: the number of hot keys, and the share of the table's updates they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.access.steps import Steps, updates_of


class TableShare(NamedTuple):
    table: str
    updates: int
    keys: int
    hot_keys: int
    share: float


def shares_by_table(steps: Steps, top_k: int) -> Iterator[TableShare]:
    updates = updates_of(steps)
    hot = hottest(updates, top_k)
    for index, table in enumerate(steps.tables):
        inside = steps.table_of == index
        hot_inside = inside & hot
        total, hits = int(updates.sum(where=inside)), int(updates.sum(where=hot_inside))
        yield TableShare(
            table, total, int(inside.sum()), int(hot_inside.sum()), hits / total if total else 0.0
        )


def hottest(updates: NDArray[np.int64], top_k: int) -> NDArray[np.bool_]:
    """Return which keys are the `top_k` with the most updates; of equal ones, those of lower index.

    It needs memory for only one copy of `updates`, because there may be 50 million keys.
    """
    if not 0 < top_k < len(updates):
        return np.full(len(updates), top_k > 0)
    threshold = np.partition(updates, len(updates) - top_k)[len(updates) - top_k]
    hot: NDArray[np.bool_] = updates > threshold
    equal = np.flatnonzero(updates == threshold)
    hot[equal[: top_k - int(hot.sum())]] = True
    return hot
