"""Capacity by the oversubscription of racks' uplinks, calculated from a simulation with one oversubscription.

Workers, servers and uplinks are the stations of a closed loop. The time of workers and servers in a step is
known from the simulation, that of uplinks follows from the bytes of the step's RPCs and lanes. The p-norm of
these times models that busy stations wait for each other.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, VALUE_BYTES
from foundation.settings import Strict
from hotline_answers.cluster_answer.arm_results import ArmCapacity, OffloadComparison
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.cluster_answer.sizes import PackingCounts
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import uplink_mbit
from softswitch.queues.fifo import WIRE_OVERHEAD

_NORM = 8  # exponent of the p-norm; `test_answer_parts.py` compares it with simulations
_RATIOS = tuple(2.0**k for k in range(11))


class UplinkGain(Strict):
    oversubscription: float
    baseline: float  # capacity in steps/s
    offload: float  # capacity in steps/s

    @property
    def gain(self) -> float:
        return self.offload / self.baseline


def uplink_gains(
    cluster: Cluster, config: SimulationConfig, comparison: OffloadComparison, baseline: PackingCounts,
    offload: PackingCounts,
) -> tuple[UplinkGain, ...]:  # fmt: skip
    """Return the capacities for oversubscriptions of 1 to 1,024 and the cluster's own; () without racks."""
    if config.network.rack is None:
        return ()
    uplinks = -(-config.workers // config.network.rack) / config.hosts.server_share
    mbit = uplinks * uplink_mbit(config.network, config.network.rack)  # of all racks' uplinks together
    return tuple(
        UplinkGain(
            oversubscription=ratio,
            baseline=_capacity(comparison.baseline, baseline, mbit, ratio / cluster.oversubscription),
            offload=_capacity(comparison.offload, offload, mbit, ratio / cluster.oversubscription),
        )
        for ratio in sorted({*_RATIOS, cluster.oversubscription})
    )


def _capacity(simulated: ArmCapacity, counts: PackingCounts, mbit: float, factor: float) -> float:
    """Return the capacity with uplinks that are slower by this factor than the simulated ones."""
    busy = simulated.at_capacity
    times_us = 1e6 * np.array([busy.workers, busy.servers]) / simulated.capacity
    uplinks_us = 8 * _bytes_to_switch(counts) / mbit

    def step_us(uplinks_us: float) -> float:
        return float(np.linalg.norm([*times_us, uplinks_us], _NORM))

    return simulated.capacity * step_us(uplinks_us) / step_us(factor * uplinks_us)


def _bytes_to_switch(counts: PackingCounts) -> float:
    """Return the bytes on the wire that workers send for a step; answers are smaller."""
    frame = FRAME_OVERHEAD + HEADER_BYTES + WIRE_OVERHEAD
    # Half of the keys are pulled, the others are pushed with their values.
    return frame * counts.rpcs + KEY_BYTES * counts.keys + VALUE_BYTES * counts.values / 2
