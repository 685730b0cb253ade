"""Sizes of the hot set that are compared, and the packets of a step with each.

Packets are counted by packing mini-batches, which follow those that the hot keys are chosen from. The
simulations that compare sizes (`ask.py`) do not depend on the size that is asked for, so that each size has
the same capacity in every answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.hotset.coverage import table_limit
from experiment.run_config import MAX_TOP_K, max_top_k
from foundation.logs.columns import TRANSFERS
from foundation.protocol.header import LANES
from foundation.protocol.memory import NO_MEMORY, MemoryOfRows, memory_of_rows
from foundation.settings import Strict
from hosts.workload.trace import Trace
from hotline_agents.hotset.worker.counting import count_rpcs
from hotline_answers.cluster_answer.arm_results import ArmCapacity, cores_of
from hotline_answers.cluster_answer.hotset import ScoredWorkload
from hotline_simulator.config import SimulationConfig

MIN_GAIN = 0.03
"""Relative difference in capacity from which on a hot set is said to carry more than another."""
_SIZES = tuple(digit * 10**exponent for exponent in range(6) for digit in (1, 2, 5))
_MAX_RANGE = 200
"""Ratio of the largest of the compared sizes to the smallest, at most."""
_PACKED_BATCHES = 40


class PackingCounts(NamedTuple):
    """Means per step, pull and push together."""

    served: float  # share of the keys that the switch serves
    rpcs: float
    server_packets: float  # packets to servers
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
    capacity: float  # simulated, steps/s


def size_of(config: SimulationConfig, top_k: int, counts: PackingCounts, closed_loop: ArmCapacity) -> Size:
    cores, capacity = cores_of(config), closed_loop.capacity
    # A simulated part has a share of the cluster's workers, and all of its servers.
    worker_cores = cores["workers"] / config.hosts.server_share
    return Size(
        top_k=top_k,
        register_bytes=counts.memory.registers,
        entry_bytes=counts.memory.entries,
        served=counts.served,
        rpcs_per_step=counts.rpcs,
        ps_packets_per_step=counts.server_packets,
        worker_cpu_us=1e6 * closed_loop.at_capacity.workers * worker_cores / capacity,
        ps_cpu_us=1e6 * closed_loop.at_capacity.servers * cores["servers"] / capacity,
        capacity=capacity,
    )


class ComparedSizes(Strict):
    """Sizes of the hot set, ascending, whose capacities were simulated with the same settings."""

    none: Size
    """Without a hot set."""
    hot: tuple[Size, ...]
    asked: int
    """The size that was asked for, which is one of them."""

    @property
    def best(self) -> Size:
        """The size that carries most."""
        return max(self.hot, key=lambda size: size.capacity)

    @property
    def sufficient(self) -> Size:
        """The smallest size beyond which a larger one adds less than `MIN_GAIN` to the capacity."""
        most = self.best.capacity
        return next(size for size in self.hot if size.capacity >= (1 - MIN_GAIN) * most)

    @property
    def has_gain(self) -> bool:
        return self.best.capacity > (1 + MIN_GAIN) * self.none.capacity

    @property
    def recommended(self) -> Size:
        """The sufficient size, or the one that was asked for if no size carries more than none."""
        return self.sufficient if self.has_gain else self[self.asked]

    def __getitem__(self, top_k: int) -> Size:
        return next(size for size in self.hot if size.top_k == top_k)

    def neighbours(self, top_k: int) -> list[Size]:
        """Return the next smaller size and the next larger one, or that of them which there is."""
        at = self.hot.index(self[top_k])
        return [size for index, size in enumerate(self.hot) if abs(index - at) == 1]


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
        self._trace, self._servers, self._network = trace, config.servers, config.network
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
        # Without a hot set, the switch's program has no limit.
        hot_lanes = self._network.switch_lanes if top_k else LANES
        lanes = min(hot_lanes + self._network.cold_lanes, LANES)
        rpc_counts = count_rpcs(
            trace.space, self._servers, hot_keys, operations, trace.largest_batch, lanes, hot_lanes
        )
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
    """Return the sizes to compare: `top_k`, and others up to the `keys` that may be hot and `max_rows`."""
    largest = min(keys, max_rows)
    others = (size for size in _SIZES if largest / _MAX_RANGE <= size <= largest)
    return sorted({top_k, *others, largest})
