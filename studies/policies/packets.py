"""What a policy spares: RPCs and packets to the servers, by packing sampled mini-batches as workers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.settings import Strict
from hosts.hotset.worker.counting import Counted, count_operations
from hosts.keys import KeySpace
from studies.policies.log import PULL, Log

SAMPLED = 40
"""Mini-batches that are packed."""
_SEED = 1


class Packed(Strict):
    """Means of an operation, a pull or a push."""

    rpcs: float
    """That a worker sends."""
    to_servers: float
    """Of these, those that servers get."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Operations of the scored part, one of each stretch of it, by chance: periods are not to show."""

    steps: Sequence[int]
    space: KeySpace
    positions: Mapping[int, NDArray[np.int64]]
    """Step -> its updated keys, as positions in the space."""
    largest: int


def sample(log: Log) -> Sample:
    """At most `SAMPLED` mini-batches of a log."""
    number = min(SAMPLED, log.steps - log.learnt)
    edges = np.linspace(log.learnt, log.steps, number + 1).astype(np.int64)
    steps = np.random.default_rng(_SEED).integers(edges[:-1], edges[1:]).tolist()
    keys = {step: log.keys[_updated(log, step)] for step in steps}
    space = KeySpace(0, np.unique(np.concatenate(list(keys.values()))))
    assert space.sparse is not None
    space = KeySpace(len(space.sparse), space.sparse)
    positions = {step: space.positions(found) for step, found in keys.items()}
    return Sample(steps, space, positions, max(map(len, positions.values())))


def _updated(log: Log, step: int) -> NDArray[np.uint32]:
    accesses = _of_step(log, step)
    return accesses[accesses < PULL]


def _of_step(log: Log, step: int) -> NDArray[np.uint32]:
    return np.array(log.accesses[log.starts[step] : log.starts[step + 1]])


def without(of: Sample, servers: int) -> Packed:
    """With no key in the switch."""
    return _mean(of, servers, {step: np.zeros(len(at), np.bool_) for step, at in of.positions.items()})


def packed(of: Sample, servers: int, log: Log, found: Mapping[int, NDArray[np.uint8]], size: int) -> Packed:
    """With the keys in the switch that a policy's size of this number had when they came."""
    served = {step: (levels <= size)[_of_step(log, step) < PULL] for step, levels in found.items()}
    return _mean(of, servers, served)


def _mean(of: Sample, servers: int, served: Mapping[int, NDArray[np.bool_]]) -> Packed:
    operations = ((of.positions[step], of.space.keys(of.positions[step][served[step]])) for step in of.steps)
    counted: list[Counted] = list(count_operations(of.space, servers, operations, of.largest))
    rpcs, to_servers = np.mean(counted, axis=0).tolist()
    return Packed(rpcs=rpcs, to_servers=to_servers)
