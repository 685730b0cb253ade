"""What the packing of lanes alone says: RPCs of workers and packets to servers, with offload and without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Trace
from protocol.hashing import lanes_of, ps_ids_of
from protocol.packing import pack

PARAMETERS = R1.parameters
TOP_SHARE = 0.02
"""Part of all parameters whose share of the updates is called skew."""
TOP = round(TOP_SHARE * PARAMETERS)
_PROFILE_LANES = 1_000_000
_MEASURED_BATCHES = 60


@dataclass(frozen=True, slots=True)
class Packed:
    """Means of an operation, a pull or a push."""

    keys: float
    served: float
    """Part of its lanes that the switch serves."""
    rpcs: float
    """That a worker sends, all of which servers get, without offload."""
    rpcs_with: float
    """That a worker sends with offload."""
    to_servers: float
    """Of these, those that servers get."""


def pack_trace(trace: Trace, top_k: int, servers: int) -> Packed:
    """Of a trace: the hot set from all but its last mini-batches, counted in these."""
    batches = len(trace.key_start) - 1
    measured = min(_MEASURED_BATCHES, max(1, batches // 2))
    split = trace.key_start[batches - measured]
    counts = np.bincount(trace.position[:split], minlength=trace.space.size)
    hot = np.zeros(trace.space.size, np.bool_)
    hot[np.argsort(-counts, kind="stable")[:top_k]] = True
    # What was never updated is not in a hot set.
    hot &= counts > 0
    rows = [_operation(trace, batch, hot, servers) for batch in range(batches - measured, batches)]
    keys, served, rpcs, rpcs_with, to_servers = np.mean(rows, axis=0)
    return Packed(keys, served / keys, rpcs, rpcs_with, to_servers)


def _operation(trace: Trace, batch: int, hot: NDArray[np.bool_], servers: int) -> tuple[int, ...]:
    positions = trace.position[trace.key_start[batch] : trace.key_start[batch + 1]]
    keys = trace.space.keys(positions)
    ps, lane, hinted = ps_ids_of(keys, servers), lanes_of(keys), hot[positions]
    packed = pack(ps, lane, hinted)
    without = pack(ps, lane, np.zeros_like(hinted))
    hashed = int(packed.hashed.sum())
    return len(keys), int(hinted.sum()), len(without), len(packed), len(packed) - hashed


def shape_of(skew: float, keys_per_step: int) -> Shape:
    """Click data of R1's size whose top 2 % take that share of the updates."""
    return Shape("clicks", PARAMETERS, TOP, skew, keys_per_step, R1.features_per_sample)


def pack_shape(skew: float, keys_per_step: int, servers: int, top_k: int = TOP) -> Packed:
    """Of generated data; raises `DataError` where there is no such data."""
    batches = max(_MEASURED_BATCHES, _PROFILE_LANES // keys_per_step) + _MEASURED_BATCHES
    return pack_trace(generate(shape_of(skew, keys_per_step), 1, batches, seed=1), top_k, servers)


def skew_of(trace: Trace) -> float:
    """Share of the updates that the top 2 % of a trace's parameters take."""
    counts = np.sort(np.bincount(trace.position, minlength=trace.space.size))[::-1]
    return float(counts[: max(1, round(TOP_SHARE * len(counts)))].sum() / counts.sum())
