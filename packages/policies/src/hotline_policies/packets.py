"""RPCs and packets to the servers under a policy, counted by packing sampled mini-batches as workers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.rows import ONE_VALUE, RowRange
from foundation.settings import Strict
from hosts.keys import KeySpace
from hosts.workload.data_files import space_by_dim
from hotline_agents.hotset.worker.counting import RpcCounts, count_operations
from hotline_policies.log import PULL, PolicyLog

SAMPLE_SIZE = 40  # steps
_SEED = 1


class RpcMeans(Strict):
    rpcs: float  # RPCs per operation
    to_servers: float  # RPCs per operation that reach a server


@dataclass(frozen=True, slots=True)
class Sample:
    """Steps drawn at random from equal sections of the scored part, to prevent aliasing with periods."""

    steps: Sequence[int]
    space: KeySpace
    positions: Mapping[int, NDArray[np.int64]]
    """Positions in `space` of the keys that each step updates, by step."""
    max_keys: int


def sample_steps(log: PolicyLog, dims: NDArray[np.int64]) -> Sample:
    """Sample a log whose keys name rows with these dims of RPCs [distinct]."""
    section_count = min(SAMPLE_SIZE, log.steps - log.training_steps)
    edges = np.linspace(log.training_steps, log.steps, section_count + 1).astype(np.int64)
    steps = np.random.default_rng(_SEED).integers(edges[:-1], edges[1:]).tolist()
    accesses = {step: log.accesses[log.starts[step] : log.starts[step + 1]] for step in steps}
    updated = {step: each[each < PULL] for step, each in accesses.items()}
    distinct = np.unique(np.concatenate(list(updated.values())))
    position_of = np.arange(len(distinct))
    if len(distinct_dims := np.unique(dims[distinct])) <= 1:
        ranges = tuple(RowRange(0, dim) for dim in distinct_dims.tolist()) or ONE_VALUE
        space = KeySpace(len(distinct), log.keys[distinct], ranges)
    else:
        space, positions_by_dim = space_by_dim(dims[distinct])
        position_of = positions_by_dim.astype(np.int64)
    positions = {step: position_of[np.searchsorted(distinct, each)] for step, each in updated.items()}
    return Sample(steps, space, positions, max(map(len, positions.values())))


def rpcs_without_offload(sample: Sample, servers: int) -> RpcMeans:
    hits = {step: np.zeros(len(positions), np.bool_) for step, positions in sample.positions.items()}
    return _mean_rpcs(sample, servers, hits)


def rpcs_with_policy(
    sample: Sample,
    servers: int,
    log: PolicyLog,
    sampled_levels: Mapping[int, NDArray[np.uint8]],
    size_index: int,
) -> RpcMeans:
    # A level is the smallest size that has the key, and larger sizes have it, too.
    hits = {
        step: (levels <= size_index)[log.accesses[log.starts[step] : log.starts[step + 1]] < PULL]
        for step, levels in sampled_levels.items()
    }
    return _mean_rpcs(sample, servers, hits)


def _mean_rpcs(sample: Sample, servers: int, hits: Mapping[int, NDArray[np.bool_]]) -> RpcMeans:
    operations = (
        (np.sort(sample.positions[step]), sample.space.keys(sample.positions[step][hits[step]]))
        for step in sample.steps
    )
    counts: list[RpcCounts] = list(count_operations(sample.space, servers, operations, sample.max_keys))
    rpcs, to_servers = np.mean(counts, axis=0).tolist()
    return RpcMeans(rpcs=rpcs, to_servers=to_servers)
