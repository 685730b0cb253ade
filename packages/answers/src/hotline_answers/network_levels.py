"""Hot rows at both levels of a network, the spine and the servers' leaves, simulated beside no hot set.

`python -m hotline_answers.network_levels` simulates all of them and prints JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from experiment.run_config import max_top_k
from hotline_answers.networks import (
    COMPUTE_MS,
    DIMS,
    MORE_ROWS,
    OVERSUBSCRIPTIONS,
    TOP_K,
    Placement,
    PlacementPoint,
    print_results,
)

NETWORKS = (*((1.0, ratio) for ratio in OVERSUBSCRIPTIONS), (10.0, OVERSUBSCRIPTIONS[0]))
"""Cables in Gbit/s, and oversubscription. With cables of 10 Gbit/s no oversubscription limits the cluster."""
_PLACEMENTS: tuple[tuple[Placement, int], ...] = (("none", TOP_K), ("both", TOP_K), ("both", MORE_ROWS))


def points() -> Iterator[PlacementPoint]:
    """Yield the points of one network after those of another, each without a hot set first."""
    for dim, (gbit, ratio), compute_ms in product(DIMS, NETWORKS, COMPUTE_MS):
        for placement, top_k in _PLACEMENTS:
            rows = min(top_k, max_top_k(1, dim))
            if top_k == TOP_K or rows == top_k:
                yield PlacementPoint(dim, gbit, ratio, compute_ms, placement, rows)


if __name__ == "__main__":
    print_results(list(points()))
