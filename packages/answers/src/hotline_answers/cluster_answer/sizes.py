"""Sizes of the hot set, and the packets of a step with each, counted by packing mini-batches.

The counted steps follow those that the hot keys are chosen from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.hotset.coverage import table_limit
from experiment.config import MAX_TOP_K, max_top_k
from foundation.logs.columns import TRANSFERS
from foundation.protocol.header import LANES
from foundation.protocol.memory import NO_MEMORY, MemoryOfRows, memory_of_rows
from foundation.settings import Strict
from hosts.hotset.worker.counting import count_rpcs
from hosts.workload.trace import Trace
from hotline_answers.cluster_answer.hotset import ScoredWorkload
from simulator.config import SimulationConfig

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
_PACKED_BATCHES = 40


class PackingCounts(NamedTuple):
    """Means per step, pull and push together."""

    served: float  # share of the keys that the switch serves
    rpcs: float
    server_packets: float  # packets to servers
    server_lanes: float  # keys that servers serve
    keys: float
    values: float
    """Values of the keys' rows, as RPCs carry them."""
    memory: MemoryOfRows = NO_MEMORY
    """Memory of the switch that the hot rows take."""


class Size(Strict):
    top_k: int
    register_bytes: int = 0
    """Bytes of the switch's registers that the hot rows take; `entry_bytes` is that of table entries."""
    entry_bytes: int = 0
    served: float  # share of the keys that the switch serves
    rpcs_per_step: float
    ps_packets_per_step: float
    worker_cpu_us: float
    """CPU time of a step of all workers in a closed loop; `ps_cpu_us` is that of all servers."""
    ps_cpu_us: float
    capacity: float  # calculated, steps/s
    simulated: float | None = None  # simulated capacity, steps/s


class PackingCounter:
    def __init__(self, config: SimulationConfig, workload: ScoredWorkload) -> None:
        trace, updates = workload.trace, workload.updates
        self.keys_with_updates = int((updates > 0).sum())
        self._rank = np.empty(len(updates), np.int64)
        order = np.argsort(-updates, kind="stable")
        self._rank[order] = np.arange(len(updates))
        self._rank[updates == 0] = MAX_TOP_K  # never hot, at no size
        self._dims = trace.space.dims_at(np.arange(trace.space.size))
        self.max_rows = self._max_rows(config, trace, order[: min(self.keys_with_updates, MAX_TOP_K)])
        self._trace, self._servers, self._lanes = trace, config.servers, config.network.switch_lanes
        scored_batches = _batches(trace, workload.first_step, trace.steps)
        self._scored_updates = _count_updates(trace, workload.first_step)
        # Packing takes time, so that only evenly spaced batches are packed.
        packed = np.linspace(0, len(scored_batches) - 1, min(_PACKED_BATCHES, len(scored_batches)))
        self._packed_batches = scored_batches[packed.round().astype(np.int64)]
        self._scored_batches = len(scored_batches)

    def _max_rows(self, config: SimulationConfig, trace: Trace, hottest: NDArray[np.int64]) -> int:
        """Return how many of these rows fit into the switch, the hottest first; all dims are considered."""
        if len(trace.space.dims) == 1:
            return max_top_k(1, trace.space.dims[0]) * config.network.switch_lanes // LANES
        limit = table_limit(trace.space.keys(hottest), self._dims[hottest], jobs=1)
        return limit if limit < len(hottest) else MAX_TOP_K  # all of them fit

    def count(self, top_k: int) -> PackingCounts:
        trace, is_hot = self._trace, self._rank < top_k
        operations = [_positions(trace, batch) for batch in self._packed_batches]
        hot_keys = trace.space.keys(np.flatnonzero(is_hot))
        lanes = self._lanes if top_k else LANES  # without a hot set, the switch's program has no limit
        rpc_counts = count_rpcs(trace.space, self._servers, hot_keys, operations, trace.largest_batch, lanes)
        rpcs, server_packets = np.array(list(rpc_counts), np.float64).mean(axis=0).tolist()
        keys, served = (
            float(updates.sum()) / self._scored_batches
            for updates in (self._scored_updates, self._scored_updates[is_hot])
        )
        values = float((self._scored_updates * self._dims).sum()) / self._scored_batches
        ops = len(TRANSFERS)
        return PackingCounts(
            served=served / keys,
            rpcs=ops * rpcs,
            server_packets=ops * server_packets,
            server_lanes=ops * (keys - served),
            keys=ops * keys,
            values=ops * values,
            memory=memory_of_rows(self._dims[is_hot]),
        )


def _batches(trace: Trace, first: int, end: int) -> NDArray[np.int64]:
    # In a trace, the batches of a worker follow each other.
    steps = np.arange(first, end)[:, None]
    return (steps + trace.steps * np.arange(trace.workers)).ravel()


def _count_updates(trace: Trace, first: int) -> NDArray[np.int64]:
    """Return the updates of each position in the steps of all workers from `first` on."""
    updates = np.zeros(trace.space.size, np.int64)
    for worker in range(trace.workers):
        start, end = trace.key_start[[worker * trace.steps + first, (worker + 1) * trace.steps]]
        updates += np.bincount(trace.position[start:end], minlength=len(updates))
    return updates


def _positions(trace: Trace, batch: int) -> NDArray[np.uint32]:
    return trace.position[trace.key_start[batch] : trace.key_start[batch + 1]]


def sizes_for(top_k: int, keys: int, max_rows: int) -> list[int]:
    """Return the sizes to count, up to `max_rows` rows in the switch and the `keys` that may be hot."""
    return sorted({0, top_k, *(size for size in (*SIZES, max_rows) if size <= min(keys, max_rows))})
