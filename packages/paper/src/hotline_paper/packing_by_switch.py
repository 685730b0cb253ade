"""RPCs and packets if each switch holds rows of some servers, and a row travels only in RPCs to these.

`python -m hotline_paper.packing_by_switch` prints, as JSON, how these numbers grow with the number of
switches, in a network as docs/decisions/networks.md proposes it, where each server belongs to one switch.
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
SWITCHES = (1, 2, 4, 10, 20)
DIMS, KEYS = (1, 16), (500, 3_000)


class PackingBySwitch(NamedTuple):
    """RPCs of an operation with offload at so many switches, as multiples of those without."""

    dim: int
    keys_per_step: int
    switches: int
    rpcs: float
    server_rpcs: float


def switches_of(positions: NDArray[np.integer], trace: Trace, switches: int) -> NDArray[np.integer]:
    """Return the switch of each row: servers are divided evenly among switches, in their order."""
    return ps_ids_of(trace.space.keys(positions), SERVERS).astype(np.int64) * switches // SERVERS


def pack_by_switch(trace: Trace, operations: CountedOperations, switches: int) -> tuple[float, float]:
    """Return the mean RPCs of an operation, and those of them that reach servers.

    The rows of each switch are packed as a worker packs an operation for a single switch.
    """
    hot_rows = np.flatnonzero(operations.is_hot)
    switches_of_hot_rows = switches_of(hot_rows, trace, switches)
    switches_of_rows = [switches_of(positions, trace, switches) for positions in operations.positions]
    total = np.zeros((len(switches_of_rows), 2))
    for switch in range(switches):
        parts = [
            positions[found == switch]
            for positions, found in zip(operations.positions, switches_of_rows, strict=True)
        ]
        hot_keys = trace.space.keys(hot_rows[switches_of_hot_rows == switch])
        total += list(count_rpcs(trace.space, SERVERS, hot_keys, parts, trace.largest_batch))
    rpcs, server_rpcs = total.mean(axis=0).tolist()
    return rpcs, server_rpcs


def packings(dim: int, keys_per_step: int) -> Iterator[PackingBySwitch]:
    trace = make_trace(SKEW, keys_per_step, dim)
    operations = choose_operations(trace, hot_rows_of(dim))
    counts = count_rpcs(trace.space, SERVERS, None, operations.positions, trace.largest_batch)
    without = float(np.mean([rpcs for rpcs, _ in counts]))
    for switches in SWITCHES:
        rpcs, server_rpcs = pack_by_switch(trace, operations, switches)
        yield PackingBySwitch(dim, keys_per_step, switches, rpcs / without, server_rpcs / without)


if __name__ == "__main__":
    found = [each._asdict() for step in product(DIMS, KEYS) for each in packings(*step)]
    print(json.dumps(found, indent=2))
