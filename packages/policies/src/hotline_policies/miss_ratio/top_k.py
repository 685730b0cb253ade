"""The share of a table's accesses that its hottest keys take, as HugeCTR sizes its GPU caches."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from foundation.logs.access.steps import Steps, accesses_of
from hotline_policies.miss_ratio.curve import ALL

GPU_CACHE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Values of HugeCTR's `gpucacheper`: shares of a table's keys that a GPU cache holds."""


class TopKShares(NamedTuple):
    table: str
    accesses: int
    keys: int
    shares: tuple[float, ...]  # share of the accesses that hit, for each of `GPU_CACHE_SHARES`

    def to_hugectr(self) -> dict[str, object]:
        """Return keys and hit rate for each `gpucacheper`, named as in HugeCTR's inference settings."""
        return {
            "keys": self.keys,
            "lookups": self.accesses,
            "top_k": [
                {"gpucacheper": cache_share, "keys": ceil(cache_share * self.keys), "hit_rate": share}
                for cache_share, share in zip(GPU_CACHE_SHARES, self.shares, strict=True)
            ],
        }


def top_k_shares(steps: Steps) -> Iterator[TopKShares]:
    """Yield the shares of each table, or those of all keys for a log without tables."""
    counts = accesses_of(steps)
    for index, table in enumerate(steps.tables or (ALL,)):
        # Sort in place, since 5e7 keys take 0.4 GB.
        table_counts = counts[steps.table_of == index] if steps.tables else counts
        table_counts.sort()
        keys, total = len(table_counts), int(table_counts.sum())
        first_indices = (keys - ceil(share * keys) for share in GPU_CACHE_SHARES)
        shares = tuple(int(table_counts[first:].sum()) / max(total, 1) for first in first_indices)
        yield TopKShares(table, total, keys, shares)
