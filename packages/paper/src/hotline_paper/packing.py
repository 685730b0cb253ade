"""Numbers of RPCs and packets with and without offload, counted by packing mini-batches as workers do.

`python -m hotline_paper.packing` prints the numbers of docs/design.md as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiment.run_config import max_top_k
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import lanes_of_dim
from foundation.protocol.rows import RowRange
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Trace
from hotline_agents.hotset.worker.counting import count_rpcs

PARAMETERS = R1.parameters
TOP_SHARE = 0.02
TOP_PARAMETERS = round(TOP_SHARE * PARAMETERS)
_PROFILE_LANES = 1_000_000  # updates from which the hot set is chosen
SKEW = 0.5
DIMS = (1, 16, 64)
STEPS = ((250, 2), (500, 2), (3_000, 2), (500, 20), (3_000, 20), (3_000, 70))
"""Keys of a step, and servers."""
_TOP_K = 20_000  # rows of one value in the switch; of longer ones, as many as fit
_MEASURED_BATCHES = 60  # mini-batches at the end of the trace whose RPCs are counted


@dataclass(frozen=True, slots=True)
class MeanPacking:
    keys: float  # mean keys of an operation
    hot_share: float  # share of the keys that the switch holds
    rpcs: float
    """Mean RPCs of an operation without offload, all of which reach servers."""
    rpcs_with_offload: float  # RPCs to servers or to the switch only
    server_rpcs_with_offload: float  # RPCs that reach servers


class CountedOperations(NamedTuple):
    """The operations whose RPCs are counted."""

    positions: list[NDArray[np.integer]]
    is_hot: NDArray[np.bool_]
    """Whether the switch has the row at a position [size of the key space]; chosen from other operations."""


def choose_operations(trace: Trace, top_k: int) -> CountedOperations:
    batches = len(trace.key_start) - 1
    measured_batches = min(_MEASURED_BATCHES, max(1, batches // 2))
    split = trace.key_start[batches - measured_batches]
    counts = np.bincount(trace.position[:split], minlength=trace.space.size)
    is_hot = np.zeros(trace.space.size, np.bool_)
    is_hot[np.argsort(-counts, kind="stable")[:top_k]] = True
    is_hot &= counts > 0  # a parameter that was never updated is not in the hot set
    starts = trace.key_start[batches - measured_batches :]
    return CountedOperations([trace.position[start:end] for start, end in pairwise(starts.tolist())], is_hot)


def pack_trace(trace: Trace, top_k: int, servers: int) -> MeanPacking:
    operations, is_hot = choose_operations(trace, top_k)
    keys = float(np.mean([len(positions) for positions in operations]))
    hot_keys = float(np.mean([np.count_nonzero(is_hot[positions]) for positions in operations]))
    rpcs, _ = _mean_rpcs(trace, servers, hot_keys=None, operations=operations)
    return MeanPacking(
        keys,
        hot_keys / keys,
        rpcs,
        *_mean_rpcs(trace, servers, trace.space.keys(np.flatnonzero(is_hot)), operations),
    )


def least_rpcs(trace: Trace, top_k: int, servers: int) -> float:
    """Return a lower bound of the mean RPCs of an operation with offload, for rows of one dim.

    A server needs RPCs for its cold rows, and no RPC has more rows than lanes. Both hold for any packing, in
    whatever lanes the hot rows are.
    """
    operations, is_hot = choose_operations(trace, top_k)
    [dim] = trace.space.dims
    lanes = lanes_of_dim(dim)
    bounds = []
    for positions in operations:
        cold_rows = trace.space.keys(positions[~is_hot[positions]])
        cold_of_servers = np.bincount(ps_ids_of(cold_rows, servers), minlength=servers)
        bounds.append(max(int(-(-cold_of_servers // lanes).sum()), -(-len(positions) // lanes)))
    return float(np.mean(bounds))


def _mean_rpcs(
    trace: Trace, servers: int, hot_keys: Keys | None, operations: Sequence[NDArray[np.integer]]
) -> tuple[float, float]:
    rpc_counts = list(count_rpcs(trace.space, servers, hot_keys, operations, trace.largest_batch))
    rpcs, server_rpcs = np.mean(rpc_counts, axis=0).tolist()
    return rpcs, server_rpcs


def shape_of(skew: float, keys_per_step: int) -> Shape:
    return Shape("clicks", PARAMETERS, TOP_PARAMETERS, skew, keys_per_step, R1.features_per_sample)


def pack_shape(skew: float, keys_per_step: int, servers: int, top_k: int = TOP_PARAMETERS) -> MeanPacking:
    return pack_trace(make_trace(skew, keys_per_step), top_k, servers)


def make_trace(skew: float, keys_per_step: int, dim: int = 1) -> Trace:
    """Return the trace whose packing `pack_shape` counts; its parameters are rows of `dim` values."""
    batches = max(_MEASURED_BATCHES, _PROFILE_LANES // keys_per_step) + _MEASURED_BATCHES
    trace = generate(shape_of(skew, keys_per_step), workers=1, steps=batches, seed=1)
    return replace(trace, space=replace(trace.space, ranges=(RowRange(0, dim),)))


def skew_of(trace: Trace) -> float:
    """Return the share of a trace's updates that go to the top 2 % of its parameters."""
    counts = np.sort(np.bincount(trace.position, minlength=trace.space.size))[::-1]
    return float(counts[: max(1, round(TOP_SHARE * len(counts)))].sum() / counts.sum())


def hot_rows_of(dim: int) -> int:
    """Return the number of rows that the switch holds."""
    return _TOP_K if dim == 1 else max_top_k(1, dim)


class PackingRatios(NamedTuple):
    """RPCs of an operation with offload, as multiples of those without."""

    dim: int
    keys_per_step: int
    servers: int
    rpcs: float
    least: float
    """Lower bound of `rpcs` for any packing."""
    server_rpcs: float


def packing_ratios(dim: int, keys_per_step: int, servers: int) -> PackingRatios:
    trace, top_k = make_trace(SKEW, keys_per_step, dim), hot_rows_of(dim)
    packed = pack_trace(trace, top_k, servers)
    return PackingRatios(
        dim, keys_per_step, servers, packed.rpcs_with_offload / packed.rpcs,
        least_rpcs(trace, top_k, servers) / packed.rpcs, packed.server_rpcs_with_offload / packed.rpcs,
    )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps([packing_ratios(dim, *step)._asdict() for dim, step in product(DIMS, STEPS)], indent=2))
