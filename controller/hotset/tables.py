"""A hot set by embedding table: the number of hot keys, and the share of the table's updates they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from foundation.logs.access.steps import Steps, updates_of


class TableShare(NamedTuple):
    table: str
    updates: int
    keys: int
    hot_keys: int
    share: float


def shares_by_table(steps: Steps, top_k: int) -> Iterator[TableShare]:
    updates = updates_of(steps)
    hot = np.zeros(len(updates), np.bool_)
    hot[np.argsort(-updates, kind="stable")[:top_k]] = True
    for index, table in enumerate(steps.tables):
        inside = steps.table_of == index
        total, hits = int(updates[inside].sum()), int(updates[inside & hot].sum())
        yield TableShare(
            table, total, int(inside.sum()), int((inside & hot).sum()), hits / total if total else 0.0
        )
