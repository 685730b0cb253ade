"""What packing alone says: RPCs of workers and packets to servers, with offload and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys
from hosts.hotset.worker.counting import count_rpcs
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Trace

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
    starts = trace.key_start[batches - measured :]
    operations = [trace.position[start:end] for start, end in pairwise(starts.tolist())]
    keys = float(np.mean([len(positions) for positions in operations]))
    served = float(np.mean([np.count_nonzero(hot[positions]) for positions in operations]))
    rpcs, _ = _mean_rpcs(trace, servers, None, operations)
    return Packed(
        keys,
        served / keys,
        rpcs,
        *_mean_rpcs(trace, servers, trace.space.keys(np.flatnonzero(hot)), operations),
    )


def _mean_rpcs(
    trace: Trace, servers: int, hot: Keys | None, operations: Sequence[NDArray[np.integer]]
) -> tuple[float, float]:
    """RPCs of an operation, and of these those that servers get."""
    counted = list(count_rpcs(trace.space, servers, hot, operations, trace.largest_batch))
    rpcs, to_servers = np.mean(counted, axis=0).tolist()
    return rpcs, to_servers


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
