"""Simulate briefly what computing of the workers, between pull and push, leaves of an answer's gain.

A part of the cluster is simulated with the answer's computing time of a step and with others. The ratio of
two capacities of the part times the answer's capacity is that of the cluster with the other time. A worker
computes on its own core, and neither sends nor receives meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from foundation.settings import Strict
from hotline_answers.cluster_answer.arm_results import ArmCapacity, OffloadComparison
from hotline_answers.cluster_answer.cluster import Cluster, Part, config_for
from hotline_answers.cluster_answer.sizes import MIN_GAIN
from hotline_simulator.config import SimulationConfig

COMPUTE_MS = (0.0, 1.0, 5.0, 15.0)
"""Times that are simulated if a user says none."""
Capacities = Callable[[SimulationConfig], tuple[ArmCapacity, ArmCapacity]]
"""Returns the results of a part without and with the hot set."""


class ComputingEffect(Strict):
    """The cluster at its capacity, in steps/s, if workers compute for a time in each step."""

    compute_ms: float
    baseline: float
    offload: float
    servers_busy: float
    """Fraction of their CPU time for which servers are busy without the hot set."""
    workers_busy: float

    @property
    def gain(self) -> float:
        return self.offload / self.baseline


def computing_effects(
    cluster: Cluster, part: Part, comparison: OffloadComparison, simulate: Capacities
) -> tuple[ComputingEffect, ...]:
    """Return the effects of `COMPUTE_MS`, or the answer's own result if the cluster has a computing time."""
    times = COMPUTE_MS if cluster.compute_ms is None else (cluster.compute_ms,)
    own_ms = cluster.compute_ms or 0.0
    reference = None if times == (own_ms,) else simulate(config_with(cluster, part, comparison.top_k))
    return tuple(
        _own_effect(own_ms, comparison)
        if reference is None or compute_ms == own_ms
        else _other_effect(cluster, part, comparison, compute_ms, reference, simulate)
        for compute_ms in times
    )


def config_with(cluster: Cluster, part: Part, top_k: int) -> SimulationConfig:
    return config_for(cluster, part).model_copy(update={"top_k": top_k})


def _own_effect(compute_ms: float, comparison: OffloadComparison) -> ComputingEffect:
    baseline = comparison.baseline
    return ComputingEffect(
        compute_ms=compute_ms,
        baseline=baseline.capacity,
        offload=comparison.offload.capacity,
        servers_busy=baseline.at_capacity.servers,
        workers_busy=baseline.at_capacity.workers,
    )


def _other_effect(
    cluster: Cluster, part: Part, comparison: OffloadComparison, compute_ms: float,
    reference: tuple[ArmCapacity, ArmCapacity], simulate: Capacities,
) -> ComputingEffect:  # fmt: skip
    computing = cluster.model_copy(update={"compute_ms": compute_ms})
    baseline, offload = simulate(config_with(computing, part, comparison.top_k))
    return ComputingEffect(
        compute_ms=compute_ms,
        baseline=comparison.baseline.capacity * baseline.capacity / reference[0].capacity,
        offload=comparison.offload.capacity * offload.capacity / reference[1].capacity,
        servers_busy=baseline.at_capacity.servers,
        workers_busy=baseline.at_capacity.workers,
    )


def bottleneck_sentences(effects: Sequence[ComputingEffect]) -> Iterator[str]:
    """Yield how full the servers are without a hot set, and how full they must be for a gain."""
    busy = ", ".join(
        f"{100 * each.servers_busy:.0f} % with {each.compute_ms:g} ms{'' if k else ' of computing in a step'}"
        for k, each in enumerate(effects)
    )
    yield f"Without a hot set and at its capacity, this cluster's servers are busy {busy}."
    idle = [each.servers_busy for each in effects if each.gain < 1 + MIN_GAIN]
    gaining = [each.servers_busy for each in effects if each.gain >= 1 + MIN_GAIN]
    if idle and (not gaining or max(idle) < min(gaining)):
        yield (
            f"Servers that are busy {100 * max(idle):.0f} % or less gain nothing: a hot set makes this "
            f"cluster carry less than {100 * MIN_GAIN:.0f} % more."
        )
