"""RPCs and packets if hot rows ride only in RPCs to servers behind the same switch, their *home*.

`python -m hotline_paper.packing_by_home` prints, as JSON, how these numbers grow with the number of homes, in
the network of switches that docs/decisions/networks.md describes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.hashing import ps_ids_of
from hosts.workload.trace import Trace
from hotline_agents.hotset.worker.counting import count_rpcs
from hotline_paper.packing import SKEW, CountedOperations, choose_operations, hot_rows_of, make_trace

SERVERS = 20
HOMES = (1, 2, 4, 10, 20)
DIMS, KEYS = (1, 16), (500, 3_000)


class HomePacking(NamedTuple):
    """RPCs of an operation with offload, as multiples of those without."""

    dim: int
    keys_per_step: int
    homes: int
    rpcs: float
    server_rpcs: float


def homes_of(positions: NDArray[np.integer], trace: Trace, homes: int) -> NDArray[np.integer]:
    """Return the home of each row: servers are divided evenly among homes, in their order."""
    return ps_ids_of(trace.space.keys(positions), SERVERS).astype(np.int64) * homes // SERVERS


def pack_by_home(trace: Trace, operations: CountedOperations, homes: int) -> tuple[float, float]:
    """Return the mean RPCs of an operation, and those of them that reach servers.

    Each part of an operation, the rows of a home, is packed as a worker packs an operation for one switch.
    """
    hot_rows = np.flatnonzero(operations.is_hot)
    hot_homes = homes_of(hot_rows, trace, homes)
    of_rows = [homes_of(positions, trace, homes) for positions in operations.positions]
    total = np.zeros((len(of_rows), 2))
    for home in range(homes):
        parts = [positions[of == home] for positions, of in zip(operations.positions, of_rows, strict=True)]
        hot_keys = trace.space.keys(hot_rows[hot_homes == home])
        total += list(count_rpcs(trace.space, SERVERS, hot_keys, parts, trace.largest_batch))
    rpcs, server_rpcs = total.mean(axis=0).tolist()
    return rpcs, server_rpcs


def packings(dim: int, keys_per_step: int) -> Iterator[HomePacking]:
    trace = make_trace(SKEW, keys_per_step, dim)
    operations = choose_operations(trace, hot_rows_of(dim))
    counts = count_rpcs(trace.space, SERVERS, None, operations.positions, trace.largest_batch)
    without = float(np.mean([rpcs for rpcs, _ in counts]))
    for homes in HOMES:
        rpcs, server_rpcs = pack_by_home(trace, operations, homes)
        yield HomePacking(dim, keys_per_step, homes, rpcs / without, server_rpcs / without)


if __name__ == "__main__":
    found = [each._asdict() for step in product(DIMS, KEYS) for each in packings(*step)]
    print(json.dumps(found, indent=2))
