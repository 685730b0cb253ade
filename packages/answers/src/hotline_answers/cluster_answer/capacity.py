"""Capacity by size of the hot set, calculated from packet counts and calibrated with simulated capacities.

Workers, servers and the uplinks of racks are the stations of a closed loop. The CPU time of workers and
servers is linear in a step's RPCs, packets and lanes, and the time of uplinks in RPCs and lanes. The p-norm
of these times models that busy stations wait for each other. The result is multiplied by the ratio of
simulated to calculated capacities, interpolated between the simulated sizes. The
gain with oversubscribed uplinks is calculated from packet counts, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, VALUE_BYTES
from foundation.settings import Strict
from hotline_answers.cluster_answer.arm_results import ArmResult, cores_of
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.cluster_answer.sizes import PackingCounts, Size
from simulator.config import SimulationConfig
from simulator.costs import costs_of, uplink_mbit
from softswitch.queues.fifo import WIRE_OVERHEAD

MIN_GAIN = 0.03
"""Minimum gain in capacity, as a fraction of it, with which a larger hot set is recommended."""
MAX_ERROR = 0.1
"""Largest error of a check, above which calculated capacities are called estimates."""
_NORM = 8  # exponent of the p-norm; `test_answer_grid.py` compares it with simulations
_MIN_PACKETS = 0.05
"""Minimum packets to servers, as a fraction of those without offload, to derive a packet's cost from."""
_RATIOS = tuple(2.0**k for k in range(11))


class CalculationCheck(NamedTuple):
    top_k: int
    calculated: float  # capacity, steps/s
    simulated: float  # capacity, steps/s

    @property
    def error(self) -> float:
        return self.calculated / self.simulated - 1

    @property
    def has_failed(self) -> bool:
        return abs(self.error) > MAX_ERROR


class _Costs(NamedTuple):
    """CPU times in µs, derived from a simulated size."""

    served: float  # share of the lanes that the switch serves at this size
    step_us: float  # of all workers together, without their RPCs
    packet_us: float  # of a server, without the packet's lanes


class CapacityModel:
    def __init__(
        self, config: SimulationConfig, baseline: ArmResult, baseline_counts: PackingCounts,
        offload: ArmResult, offload_counts: PackingCounts,
    ) -> None:  # fmt: skip
        costs, cores = costs_of(config.hosts), cores_of(config)
        share = config.hosts.server_share
        # A simulated part has `share` of the cluster's workers, and all its servers.
        self._workers, self._servers = cores["workers"] / share, cores["servers"]
        self._rpc_us = (int(costs.encode_ns) + int(costs.send_ns) + float(costs.receive_ns.mean())) / 1e3
        # `costs_of` has divided these by the share.
        self._lane_us, self._value_us = share * int(costs.lane_ns) / 1e3, share * float(costs.value_ns) / 1e3
        self._uplinks_mbit = _uplinks_mbit(config)
        baseline_costs = self._derive_costs(baseline, baseline_counts)
        offload_costs = self._derive_costs(offload, offload_counts)
        if offload_counts.server_packets < _MIN_PACKETS * baseline_counts.server_packets:
            offload_costs = offload_costs._replace(packet_us=baseline_costs.packet_us)
        self._costs = {size_costs.served: size_costs for size_costs in (baseline_costs, offload_costs)}
        self._ratios = dict[float, float]()  # share served -> simulated / calculated capacity
        self.calibrate(baseline_counts, baseline.capacity)
        self.calibrate(offload_counts, offload.capacity)

    def calibrate(self, counts: PackingCounts, simulated: float) -> None:
        self._ratios[counts.served] = simulated / self._uncalibrated_capacity(counts)

    def size(self, top_k: int, counts: PackingCounts, simulated: float | None = None) -> Size:
        return Size(
            top_k=top_k,
            register_bytes=counts.memory.registers,
            entry_bytes=counts.memory.entries,
            served=counts.served,
            rpcs_per_step=counts.rpcs,
            ps_packets_per_step=counts.server_packets,
            worker_cpu_us=self._worker_us(counts),
            ps_cpu_us=self._server_us(counts),
            capacity=self.capacity(counts),
            simulated=simulated,
        )

    def capacity(self, counts: PackingCounts, uplink_factor: float = 1.0) -> float:
        return self._uncalibrated_capacity(counts, uplink_factor) * _interpolate(self._ratios, counts.served)

    def _derive_costs(self, result: ArmResult, counts: PackingCounts) -> _Costs:
        worker_us = 1e6 * result.at_capacity.workers * self._workers / result.capacity
        server_us = 1e6 * result.at_capacity.servers * self._servers / result.capacity
        packet_us = (server_us - self._lanes_us(counts)) / max(counts.server_packets, 1.0)
        return _Costs(counts.served, worker_us - self._rpc_us * counts.rpcs, max(packet_us, 0.0))

    def _worker_us(self, counts: PackingCounts) -> float:
        step_us = {served: costs.step_us for served, costs in self._costs.items()}
        return _interpolate(step_us, counts.served) + self._rpc_us * counts.rpcs

    def _server_us(self, counts: PackingCounts) -> float:
        packet_us = {served: costs.packet_us for served, costs in self._costs.items()}
        return _interpolate(packet_us, counts.served) * counts.server_packets + self._lanes_us(counts)

    def _lanes_us(self, counts: PackingCounts) -> float:
        """Return the time of a step's lanes at servers, with rows as long as the step's on average."""
        further_values = counts.values / counts.keys - 1 if counts.keys else 0.0
        return (self._lane_us + self._value_us * further_values) * counts.server_lanes

    def _uncalibrated_capacity(self, counts: PackingCounts, uplink_factor: float = 1.0) -> float:
        times_us = [self._worker_us(counts) / self._workers, self._server_us(counts) / self._servers]
        if self._uplinks_mbit is not None:
            times_us.append(8 * _bytes_to_switch(counts) / (uplink_factor * self._uplinks_mbit))
        return 1e6 / float(np.linalg.norm(np.array(times_us), _NORM))


def _uplinks_mbit(config: SimulationConfig) -> float | None:
    """Return the bandwidth of all racks' uplinks together, Mbit/s; None if each worker has a port."""
    rack = config.network.rack
    if rack is None:
        return None
    return -(-config.workers // rack) / config.hosts.server_share * uplink_mbit(config.network)


def _bytes_to_switch(counts: PackingCounts) -> float:
    """Return the bytes on the wire that workers send for a step; answers are smaller."""
    frame = FRAME_OVERHEAD + HEADER_BYTES + WIRE_OVERHEAD
    # Half of the keys are pulled, the others are pushed with their values.
    return frame * counts.rpcs + KEY_BYTES * counts.keys + VALUE_BYTES * counts.values / 2


def _interpolate(values: dict[float, float], served: float) -> float:
    served_shares = sorted(values)
    return float(np.interp(served, served_shares, [values[served_share] for served_share in served_shares]))


def smallest_sufficient_size(sizes: Iterable[Size]) -> Size:
    """Return the smallest size beyond which a larger size adds less than `MIN_GAIN` to the capacity."""
    ascending_sizes = list(sizes)
    max_capacity = max(size.capacity for size in ascending_sizes)
    return next(size for size in ascending_sizes if size.capacity >= (1 - MIN_GAIN) * max_capacity)


def next_size_to_check(
    simulated_sizes: Sequence[int], sufficient_top_k: int, sizes: Sequence[int]
) -> int | None:
    """Return the next size to simulate: the next from `sufficient_top_k` on, else the next below; or None."""
    unsimulated_sizes = [size for size in sizes if size not in simulated_sizes]
    larger = sorted(size for size in unsimulated_sizes if size >= sufficient_top_k)
    smaller = sorted((size for size in unsimulated_sizes if size < sufficient_top_k), reverse=True)
    return next(iter([*larger, *smaller]), None)


class UplinkGain(Strict):
    oversubscription: float
    baseline: float  # capacity in steps/s
    offload: float  # capacity in steps/s

    @property
    def gain(self) -> float:
        return self.offload / self.baseline


def uplink_gains(
    model: CapacityModel, baseline: PackingCounts, offload: PackingCounts, cluster: Cluster
) -> tuple[UplinkGain, ...]:
    """Return the capacities for oversubscriptions of 1 to 1,024 and the cluster's own; () without racks."""
    if cluster.racks is None:
        return ()
    return tuple(
        UplinkGain(
            oversubscription=ratio,
            baseline=model.capacity(baseline, uplink_factor=cluster.oversubscription / ratio),
            offload=model.capacity(offload, uplink_factor=cluster.oversubscription / ratio),
        )
        for ratio in sorted({*_RATIOS, cluster.oversubscription})
    )
