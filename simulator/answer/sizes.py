"""Capacity by size of the hot set, from counted packing and the costs of agents.

Each size is counted on other steps than its keys were chosen from. The CPU time of a step is linear in its
RPCs, packets and lanes, with coefficients from a simulation of one size; and the capacity is that of the
cores that are the bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiment.config import MAX_TOP_K
from experiment.hotset import steps_to_profile
from foundation.logs.columns import TRANSFERS
from foundation.settings import Strict
from hosts.hotset.worker.counting import count_rpcs
from hosts.workload.trace import Trace
from simulator.answer.arm_results import ArmResult, cores_of
from simulator.config import SimulationConfig
from simulator.costs import costs_of

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, MAX_TOP_K)
WORTH = 0.03
"""Fraction of the capacity that a larger hot set has to add to be worthwhile."""
_MEASURED_BATCHES = 40


class PackingCounts(NamedTuple):
    """Means of a step, that is of its pull and its push."""

    served: float
    """Fraction of the lanes that the switch serves."""
    rpcs: float
    to_servers: float
    """Packets that go on to the servers."""
    lanes: float
    """Lanes of these packets that servers process."""


class Size(Strict):
    top_k: int
    served: float
    rpcs_per_step: float
    ps_packets_per_step: float
    worker_cpu_us: float
    """CPU time of a step of all workers in a closed loop; `ps_cpu_us` is that of all servers."""
    ps_cpu_us: float
    capacity: float
    simulated: float | None = None
    """The simulated capacity; None if this size was not simulated."""


class PackingCounter:
    def __init__(self, config: SimulationConfig, trace: Trace) -> None:
        first = steps_to_profile(config, trace)
        chosen_from, others = _batches(trace, 0, first), _batches(trace, first, trace.steps)
        # A short log is measured on the steps that the keys are chosen from, as in the simulation.
        others = others if len(others) else chosen_from
        updates = np.zeros(trace.space.size, np.int64)
        for batch in chosen_from:
            updates[_positions(trace, batch)] += 1
        self.known = int((updates > 0).sum())
        """Number of keys that a hot set can be chosen from."""
        self._rank = np.empty(len(updates), np.int64)
        self._rank[np.argsort(-updates, kind="stable")] = np.arange(len(updates))
        self._rank[updates == 0] = len(updates)
        self._trace, self._servers = trace, config.servers
        self._measured = others[:: max(1, len(others) // _MEASURED_BATCHES)][:_MEASURED_BATCHES]

    def count(self, top_k: int) -> PackingCounts:
        trace, hot = self._trace, self._rank < top_k
        operations = [_positions(trace, batch) for batch in self._measured]
        packed = count_rpcs(
            trace.space, self._servers, trace.space.keys(np.flatnonzero(hot)), operations, trace.largest_batch
        )
        rows = [
            (len(positions), int(np.count_nonzero(hot[positions])), *rpcs)
            for positions, rpcs in zip(operations, packed, strict=True)
        ]
        keys, served, rpcs, to_servers = np.array(rows, np.float64).mean(axis=0).tolist()
        both = len(TRANSFERS)
        return PackingCounts(served / keys, both * rpcs, both * to_servers, both * (keys - served))


def _batches(trace: Trace, first: int, end: int) -> NDArray[np.int64]:
    steps = np.arange(first, end)[:, None]
    return (steps + trace.steps * np.arange(trace.workers)).ravel()


def _positions(trace: Trace, batch: int) -> NDArray[np.uint32]:
    return trace.position[trace.key_start[batch] : trace.key_start[batch + 1]]


class LinearCost(NamedTuple):
    """CPU time of all workers, or of all servers, µs: a constant for each step, RPC and lane."""

    step: float
    rpc: float
    lane: float

    def of(self, rpcs: float, lanes: float = 0.0) -> float:
        return self.step + self.rpc * rpcs + self.lane * lanes


class CapacityModel:
    def __init__(self, config: SimulationConfig, side: ArmResult, counted: PackingCounts) -> None:
        costs, cores = costs_of(config.hosts), cores_of(config)
        self._workers, self._servers = cores["workers"], cores["servers"]
        rpc = (int(costs.encode) + int(costs.send) + float(costs.receive.mean())) / 1e3
        lane = int(costs.lane) / 1e3
        worker_us = 1e6 * side.at_capacity.workers * self._workers / side.capacity
        server_us = 1e6 * side.at_capacity.servers * self._servers / side.capacity
        self._worker = LinearCost(worker_us - rpc * counted.rpcs, rpc, 0.0)
        # The remaining CPU time of servers is for packets.
        packet = (server_us - lane * counted.lanes) / max(counted.to_servers, 1.0)
        self._server = LinearCost(0.0, packet, lane)

    def size(self, top_k: int, counted: PackingCounts) -> Size:
        worker_us = self._worker.of(counted.rpcs)
        server_us = self._server.of(counted.to_servers, counted.lanes)
        carried = [1e6 * self._workers / worker_us]
        carried += [1e6 * self._servers / server_us] if server_us else []
        return Size(
            top_k=top_k,
            served=counted.served,
            rpcs_per_step=counted.rpcs,
            ps_packets_per_step=counted.to_servers,
            worker_cpu_us=worker_us,
            ps_cpu_us=server_us,
            capacity=min(carried),
        )


def size_without_hot_set(config: SimulationConfig, side: ArmResult, counted: PackingCounts) -> Size:
    """Return size 0, whose capacity is the simulated one."""
    found = CapacityModel(config, side, counted).size(0, counted)
    return found.model_copy(update={"capacity": side.capacity, "simulated": side.capacity})


def sizes_for(asked: int, known: int) -> list[int]:
    """Return the sizes to count: 0, round ones up to the number of known keys, and `asked`."""
    return sorted({0, asked, *(size for size in SIZES if size <= known)})


def stops_at(sizes: Iterable[Size]) -> Size:
    """Return the smallest hot set whose capacity is within `WORTH` of the best."""
    every = list(sizes)
    best = max(size.capacity for size in every)
    return next(size for size in every if size.capacity >= (1 - WORTH) * best)


def second_size(asked: int, stops: int, sizes: Sequence[int]) -> int | None:
    """Return the second size to simulate: `stops`, otherwise the next larger or smaller one."""
    larger = sorted(size for size in sizes if size > asked)
    smaller = sorted((size for size in sizes if size < asked), reverse=True)
    wanted = [stops] if stops != asked else []
    return next(iter([*wanted, *larger, *smaller]), None)
