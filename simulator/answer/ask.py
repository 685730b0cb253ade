"""Predict a cluster's capacity with the hot set in the switch and without, and by size of the hot set."""

from __future__ import annotations

from experiment.phases.workload import lanes_per_step
from experiment.progress import Reporter
from foundation.designs.arms import judged
from foundation.settings import Strict
from hosts.workload.trace import Trace
from simulator.answer.arm_results import OffloadComparison, compare_arms
from simulator.answer.cluster import Cluster, config_for, trace_for
from simulator.answer.sentences import headline, sentences
from simulator.answer.sizes import (
    CapacityModel,
    PackingCounter,
    Size,
    second_size,
    size_without_hot_set,
    sizes_for,
    stops_at,
)
from simulator.config import SimulationConfig
from simulator.experiment import temporary_run


class ClusterAnswer(Strict):
    cluster: Cluster
    keys_per_step: float
    headline: str
    sentences: tuple[str, ...]
    sides: OffloadComparison
    sizes: tuple[Size, ...]
    """Hot sets by size; the first has size 0."""
    stops_at: int
    """Size beyond which a larger hot set adds less than 3 % to the capacity."""


def answer(cluster: Cluster, reporter: Reporter) -> ClusterAnswer:
    """Simulate a cluster (100 hosts: ten seconds); raises `SimulationError`, `ConfigError`, `DataError`."""
    config = config_for(cluster)
    trace = trace_for(config, reporter)
    with temporary_run(config, trace, reporter) as made:
        sides = compare_arms(config, made.record, made.summary)
    counter = PackingCounter(config, trace)
    asked = min(cluster.top_k, counter.known)
    sizes, stops = _sizes(config, trace, counter, asked, sides, reporter)
    keys = lanes_per_step(trace)
    return ClusterAnswer(
        cluster=cluster,
        keys_per_step=keys,
        headline=headline(sides, asked),
        sentences=tuple(sentences(cluster, config, keys, sides, sizes, stops)),
        sides=sides,
        sizes=tuple(sizes),
        stops_at=stops.top_k,
    )


def _sizes(
    config: SimulationConfig,
    trace: Trace,
    counter: PackingCounter,
    asked: int,
    sides: OffloadComparison,
    reporter: Reporter,
) -> tuple[list[Size], Size]:
    with reporter.phase("sizes", 1.0) as phase:
        wanted, counted = sizes_for(asked, counter.known), {}
        for done, top_k in enumerate(wanted, start=1):
            counted[top_k] = counter.count(top_k)
            phase.update(done / len(wanted))
    calculator = CapacityModel(config, sides.offload, counted[asked])
    sizes = {top_k: calculator.size(top_k, found) for top_k, found in counted.items() if top_k}
    stops = stops_at(sizes.values()).top_k
    found = {asked: sides.offload.capacity}
    if (other := second_size(asked, stops, list(sizes))) is not None:
        found[other] = _capacity(config, trace, other, reporter)
    sizes |= {top_k: sizes[top_k].model_copy(update={"simulated": value}) for top_k, value in found.items()}
    return [size_without_hot_set(config, sides.baseline, counted[0]), *sizes.values()], sizes[stops]


def _capacity(config: SimulationConfig, trace: Trace, top_k: int, reporter: Reporter) -> float:
    other = config.model_copy(update={"top_k": top_k, "rounds": 1})
    with temporary_run(other, trace, reporter) as made:
        return made.record.capacity[judged(config.design)[1].name]
