"""Predict a cluster's capacity with the hot set in the switch and without, and by size of the hot set."""

from __future__ import annotations

from experiment.phases.workload import lanes_per_step
from experiment.progress import Reporter
from foundation.designs.arms import judged
from foundation.settings import Strict
from hosts.workload.trace import Trace
from simulator.answer.arm_results import OffloadComparison, compare_arms
from simulator.answer.capacity import CapacityModel, Check, next_to_check, stops_at
from simulator.answer.cluster import Cluster, config_for, trace_for
from simulator.answer.devices import DEVICES
from simulator.answer.sentences import headline, sentences
from simulator.answer.sizes import PackingCounter, Size, sizes_for
from simulator.config import SimulationConfig
from simulator.experiment import temporary_run

_MAX_CHECKS = 3
"""Sizes that are simulated to check the calculated ones, at most."""


class ClusterAnswer(Strict):
    cluster: Cluster
    keys_per_step: float
    notes: tuple[str, ...]
    """Sentences on the format and columns that the data were taken for."""
    headline: str
    sentences: tuple[str, ...]
    sides: OffloadComparison
    sizes: tuple[Size, ...]
    """Hot sets by size; the first has size 0."""
    stops_at: int
    """Size beyond which a larger hot set adds less than 3 % to the capacity."""
    checks: tuple[Check, ...]
    """Sizes that were calculated before they were simulated, in order; the last decides whether calculated
    capacities are estimates."""


def answer(cluster: Cluster, reporter: Reporter) -> ClusterAnswer:
    """Simulate a cluster (100 hosts: ten seconds); raises `SimulationError`, `ConfigError`, `DataError`."""
    config = config_for(cluster)
    notes = list[str]()
    trace = trace_for(config, reporter, notes.append)
    with temporary_run(config, trace, reporter) as made:
        sides = compare_arms(config, made.record, made.summary)
    counter = PackingCounter(config, trace)
    asked = min(cluster.top_k, counter.known)
    largest = min(counter.known, DEVICES[cluster.switch].hot_keys)
    sizes, checks = _sizes(config, trace, counter, (asked, largest), sides, reporter)
    stops = stops_at(sizes[1:])
    keys = lanes_per_step(trace)
    return ClusterAnswer(
        cluster=cluster,
        keys_per_step=keys,
        notes=tuple(notes),
        headline=headline(sides, asked),
        sentences=tuple(sentences(cluster, config, keys, sides, sizes, stops, checks)),
        sides=sides,
        sizes=tuple(sizes),
        stops_at=stops.top_k,
        checks=checks,
    )


def _sizes(
    config: SimulationConfig,
    trace: Trace,
    counter: PackingCounter,
    asked_and_largest: tuple[int, int],
    sides: OffloadComparison,
    reporter: Reporter,
) -> tuple[list[Size], tuple[Check, ...]]:
    """Calculate the sizes, and simulate some until one is within `MAX_ERROR` of what was calculated."""
    asked, largest = asked_and_largest
    with reporter.phase("sizes", 1.0) as phase:
        wanted, counted = sizes_for(asked, largest), {}
        for done, top_k in enumerate(wanted, start=1):
            counted[top_k] = counter.count(top_k)
            phase.update(done / len(wanted))
    model = CapacityModel(config, sides.baseline, counted[0], sides.offload, counted[asked])
    simulated, checks = {0: sides.baseline.capacity, asked: sides.offload.capacity}, list[Check]()

    def sizes() -> list[Size]:
        return [model.size(top_k, of, simulated.get(top_k)) for top_k, of in counted.items()]

    while len(checks) < _MAX_CHECKS and (not checks or checks[-1].has_failed):
        calculated = {size.top_k: size for size in sizes() if size.top_k}
        stops = stops_at(calculated.values()).top_k
        if (other := next_to_check(list(simulated), stops, list(calculated))) is None:
            break
        simulated[other] = _capacity(config, trace, other, reporter)
        checks.append(Check(other, calculated[other].capacity, simulated[other]))
        model.calibrate(counted[other], simulated[other])
    return sizes(), tuple(checks)


def _capacity(config: SimulationConfig, trace: Trace, top_k: int, reporter: Reporter) -> float:
    other = config.model_copy(update={"top_k": top_k, "rounds": 1})
    with temporary_run(other, trace, reporter) as made:
        return made.record.capacity[judged(config.design)[1].name]
