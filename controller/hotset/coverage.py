"""What share of all updates the top-k keys take, for every k ([DDL] Fig. 10), and which k to choose."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from controller.hotset.choice import MOST_KEYS, top
from controller.hotset.spread import Progress, over_parts
from controller.tables import SLOTS
from foundation.logs.counts import Counts
from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import LANES

_POINTS_A_DECADE = 40


@dataclass(frozen=True, slots=True)
class Coverage:
    """The curve, exact for every k, though it takes no more memory than there are different counts."""

    top: NDArray[np.int64]
    """[n + 1]: 0, and how many keys have at least the largest, second largest, ... count of updates."""
    taken: NDArray[np.int64]
    """[n + 1]: 0, and updates of these keys."""
    limit: int
    """The largest top-k that the tables hold: one more key would find its lane full."""

    @property
    def keys(self) -> int:
        """Keys with an update."""
        return int(self.top[-1])

    @property
    def updates(self) -> int:
        """Of all keys."""
        return int(self.taken[-1])

    def share(self, k: int) -> float:
        """Share of all updates that the top `k` keys take; keys of one count add as much as one another."""
        return float(np.interp(k, self.top, self.taken)) / self.updates

    @property
    def knee(self) -> int:
        """Where the curve is farthest above its chord: the next key takes less than the average key.

        The knee of Kneedle (Satopää et al., ICDCSW 2011) without smoothing, since the curve is concave.
        """
        return int(self.top[np.argmax(self.taken / self.taken[-1] - self.top / self.top[-1])])

    @property
    def worthwhile(self) -> int:
        """The top-k to choose where nothing else decides: up to the knee, as far as the tables go."""
        return min(self.knee, self.limit)

    def points(self) -> list[int]:
        """Values of k to draw the curve by, evenly on a logarithmic axis, from 1 to all keys."""
        number = max(2, int(np.log10(self.keys) * _POINTS_A_DECADE))
        return [int(k) for k in np.unique(np.geomspace(1, self.keys, number).round())]


def coverage(
    counts: Counts,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
    scheduler: str | None = None,
) -> Coverage:
    """The coverage of logs; `jobs` offloaded jobs share the tables, each with all hot keys.

    `progress` is told parts done and in all; `scheduler` is a cluster that counts
    (`controller.hotset.spread`). Raises `DataError`."""
    keys_with: Counter[int] = Counter()
    tops = []
    for with_updates, hottest in over_parts(counts, _of_part, scheduler, progress):
        keys_with.update(with_updates)
        tops.append(hottest)
    count, keys = np.array(sorted(keys_with.items(), reverse=True), dtype=np.int64).T
    limit = table_limit(top(pl.concat(tops), MOST_KEYS)["key"].to_numpy(), jobs)
    return Coverage(np.append(0, np.cumsum(keys)), np.append(0, np.cumsum(keys * count)), limit)


def _of_part(updates: pl.DataFrame) -> tuple[dict[int, int], pl.DataFrame]:
    """Count of updates -> keys with so many, and the hottest keys."""
    return dict(updates["updates"].value_counts().iter_rows()), top(updates, MOST_KEYS)


def table_limit(keys: NDArray[np.uint64], jobs: int) -> int:
    """How many of these keys, the hottest first, fit before one finds no slot left in its lane."""
    lanes = lanes_of(keys)
    slots = SLOTS // jobs
    of_lane = [np.flatnonzero(lanes == lane) for lane in range(LANES)]
    return min((int(ranks[slots]) for ranks in of_lane if len(ranks) > slots), default=len(keys))
