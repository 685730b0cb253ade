"""The share of updates that the top-k keys take, for every k (Pan et al. Fig. 10), and which k to choose.

Of a log with mini-batches, the keys are chosen from the first part and the share is that of what follows.
Counts of updates have no order in time, so that their curve is that of the updates the keys are chosen from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from controller.hotset.choice import MAX_KEYS, Progress, reduce_parts, select_top_keys
from controller.sizes import SLOTS
from foundation.logs.access.dims import padded_dims
from foundation.logs.access.steps import Steps
from foundation.logs.counts import Counts
from foundation.logs.time_split import SplitUpdates
from foundation.protocol.header import LANES, QUAD
from foundation.protocol.rows import lanes_of_rows

_POINTS_PER_DECADE = 40


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage curve, exact for every k: points between which each key takes equally many updates."""

    cumulative_keys: NDArray[np.int64]
    """[n + 1]: 0, and ascending numbers of keys, the most updated first."""
    cumulative_updates: NDArray[np.int64]
    """[n + 1]: 0, and the scored updates of these keys."""
    updates: int
    """Scored updates of all keys, also of those that cannot be chosen."""
    limit: int
    """Maximum top-k that fits into the tables: beyond it, a key's row finds one of its banks full."""
    dims: NDArray[np.int64]
    """Dims of the rows of the most updated keys, as RPCs carry them, of at most `MAX_KEYS`."""

    @property
    def keys(self) -> int:
        """Return the number of keys that can be chosen."""
        return int(self.cumulative_keys[-1])

    @property
    def max_updates(self) -> int:
        """Return the mean updates of the first keys; those of the most updated key, of counts of updates."""
        return int(self.cumulative_updates[1] // self.cumulative_keys[1])

    def share(self, k: int) -> float:
        return float(np.interp(k, self.cumulative_keys, self.cumulative_updates)) / self.updates

    @property
    def knee(self) -> int:
        """The k at which the curve is farthest above its chord: Kneedle (Satopää et al. 2011), unsmoothed."""
        share_of_keys = self.cumulative_keys / self.keys
        share_of_updates = self.cumulative_updates / max(self.cumulative_updates[-1], 1)
        # A hot set has at least one key, although none pays off if chosen keys have no updates later.
        return max(int(self.cumulative_keys[np.argmax(share_of_updates - share_of_keys)]), 1)

    @property
    def recommended_top_k(self) -> int:
        return min(self.knee, self.limit)

    def points(self) -> list[int]:
        point_count = max(2, int(np.log10(self.keys) * _POINTS_PER_DECADE))
        return [int(k) for k in np.unique(np.geomspace(1, self.keys, point_count).round())]


def coverage(
    counts: Counts,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
    scheduler: str | None = None,
    dim: int = 1,
) -> Coverage:
    """Return the coverage of logs if `jobs` jobs share the tables; raises the errors of `reduce_parts`.

    All rows have `dim` values, as RPCs carry them, unless a column of the logs has the dims of rows.
    """
    keys_by_updates: Counter[int] = Counter()
    top_keys_by_part = []
    for part_keys, part_top_keys in reduce_parts(counts, _count_part, scheduler, progress):
        keys_by_updates.update(part_keys)
        top_keys_by_part.append(part_top_keys)
    update_counts, key_counts = np.array(sorted(keys_by_updates.items(), reverse=True), dtype=np.int64).T
    top_keys = select_top_keys(pl.concat(top_keys_by_part), MAX_KEYS)
    has_dims = "dim" in top_keys.columns
    dims = padded_dims(top_keys["dim"].to_numpy()) if has_dims else np.full(top_keys.height, dim)
    limit = table_limit(top_keys["key"].to_numpy(), dims, jobs)
    cumulative_updates = np.append(0, np.cumsum(key_counts * update_counts))
    return Coverage(
        np.append(0, np.cumsum(key_counts)), cumulative_updates, int(cumulative_updates[-1]), limit, dims
    )


def coverage_of_split(
    keys: NDArray[np.uint64], dims: NDArray[np.int64], updates: SplitUpdates, jobs: int = 1
) -> Coverage:
    """Return the coverage of the scored updates by the keys that have most training updates.

    `keys` ascend, and `dims` has the dim of each one's row. Of keys with equally many training updates, the
    smaller is chosen first.
    """
    order = np.argsort(-updates.training, kind="stable")[: np.count_nonzero(updates.training)]
    cumulative_updates = np.append(0, np.cumsum(updates.scored[order]))
    top = order[:MAX_KEYS]
    total, limit = int(updates.scored.sum()), table_limit(keys[top], dims[top], jobs)
    return Coverage(np.arange(len(order) + 1), cumulative_updates, total, limit, dims[top])


def _count_part(updates: pl.DataFrame) -> tuple[dict[int, int], pl.DataFrame]:
    return dict(updates["updates"].value_counts().iter_rows()), select_top_keys(updates, MAX_KEYS)


def table_limit(keys: NDArray[np.uint64], dims: NDArray[np.integer], jobs: int) -> int:
    """Return the number of rows, taken in this order, that fit before the first of which a bank is full."""
    lanes, n_banks = lanes_of_rows(keys, dims), np.maximum(dims, QUAD) // QUAD
    first_banks, limit = lanes * n_banks, len(keys)
    for bank in range(LANES):
        in_bank = np.flatnonzero((first_banks <= bank) & (bank < first_banks + n_banks))
        if len(in_bank) > SLOTS // jobs:
            limit = min(limit, int(in_bank[SLOTS // jobs]))
    return limit


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
