"""Simulate briefly how rows of other dims would change an answer for rows of one value.

A few workers replay some of the answer's own scored mini-batches, with their share of each server, once with
rows of one value and once with those of each dim. The ratio of both capacities times the answer's capacity
is that of the cluster with such rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foundation.protocol.rows import RowRange
from foundation.settings import Strict
from hotline_answers.cluster_answer.arm_results import OffloadComparison
from hotline_answers.cluster_answer.cluster import PART_WORKERS, Cluster, config_for, max_workers, part_of
from hotline_answers.cluster_answer.hotset import ScoredWorkload, shorten
from hotline_simulator.config import SimulationConfig
from hotline_simulator.devices import DEVICES

OTHER_DIMS = (16, 64, 128)
_MAX_RPCS = 25_000
"""Maximum number of RPCs in a step of the simulated workers."""
_STEPS = 16
"""Mini-batches that each simulated worker replays, in turn."""
Capacities = Callable[[SimulationConfig, ScoredWorkload], tuple[float, float]]
"""Returns the cluster's capacities without and with the hot set, in steps/s."""


class DimEffect(Strict):
    """The cluster's capacity in steps/s with rows of another dim."""

    dim: int
    top_k: int
    """Number of hot rows: the answer's, or as many as fit into the switch."""
    baseline: float
    offload: float

    @property
    def gain(self) -> float:
        return self.offload / self.baseline


class _Point(NamedTuple):
    dim: int
    top_k: int
    workers: int


def dim_effects(
    cluster: Cluster, workload: ScoredWorkload, keys_per_step: float, comparison: OffloadComparison,
    simulate: Capacities,
) -> tuple[DimEffect, ...]:  # fmt: skip
    if cluster.is_indivisible and cluster.workers > PART_WORKERS:
        return ()
    simulated = dict[_Point, tuple[float, float]]()

    def capacities(point: _Point) -> tuple[float, float]:
        if point not in simulated:
            simulated[point] = _simulate(cluster, workload, point, simulate)
        return simulated[point]

    effects = []
    for dim in OTHER_DIMS:
        of_dim = cluster.model_copy(update={"dim": dim})
        workers = min(max_workers(of_dim, keys_per_step, _MAX_RPCS), PART_WORKERS, workload.trace.workers)
        top_k = min(comparison.top_k, DEVICES[cluster.switch].hot_rows(dim))
        others = capacities(_Point(dim, top_k, workers))
        reference = capacities(_Point(1, comparison.top_k, workers))
        effects.append(
            DimEffect(
                dim=dim,
                top_k=top_k,
                baseline=comparison.baseline.capacity * others[0] / reference[0],
                offload=comparison.offload.capacity * others[1] / reference[1],
            )
        )
    return tuple(effects)


def _simulate(
    cluster: Cluster, workload: ScoredWorkload, point: _Point, simulate: Capacities
) -> tuple[float, float]:
    part = part_of(cluster, point.workers)
    short = shorten(workload, part.workers, _STEPS, point.top_k)
    space = replace(short.trace.space, ranges=(RowRange(0, point.dim),))
    top_k = int(np.count_nonzero(short.updates))
    config = config_for(cluster.model_copy(update={"dim": point.dim, "top_k": max(top_k, 1)}), part)
    return simulate(config, ScoredWorkload(replace(short.trace, space=space), short.updates))
