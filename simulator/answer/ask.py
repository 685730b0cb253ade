"""The answer for a cluster: simulated with the hot set in the switch and without, and counted by size."""

from __future__ import annotations

from experiment.phases.workload import lanes_per_step
from experiment.progress import Reporter
from foundation.designs.arms import judged
from foundation.settings import Strict
from hosts.workload.trace import Trace
from simulator.answer.cluster import Cluster, config_for, trace_for
from simulator.answer.sides import Sides, sides_of
from simulator.answer.sizes import Calculator, Counter, Size, other_size, sizes_for, stops_at, without
from simulator.answer.words import headline, sentences
from simulator.aside import simulated
from simulator.config import SimulationConfig


class ClusterAnswer(Strict):
    """All that is said, as numbers and in words."""

    cluster: Cluster
    keys_per_step: float
    """Distinct keys of a step on average, in the data."""
    headline: str
    sentences: tuple[str, ...]
    sides: Sides
    sizes: tuple[Size, ...]
    """By size, from none on."""
    stops_at: int
    """Keys of the hot set beyond which a larger one adds next to nothing to the capacity."""


def answer(cluster: Cluster, reporter: Reporter) -> ClusterAnswer:
    """Simulate a cluster, which takes some ten seconds with 100 hosts.

    Raises `SimulationError` or `ConfigError` for a cluster that cannot be, and `DataError`.
    """
    config = config_for(cluster)
    trace = trace_for(config, reporter)
    with simulated(config, trace, reporter) as made:
        sides = sides_of(config, made.record, made.summary)
    counter = Counter(config, trace)
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
    config: SimulationConfig, trace: Trace, counter: Counter, asked: int, sides: Sides, reporter: Reporter
) -> tuple[list[Size], Size]:
    """Counted, with what is simulated beside two of them; and where a larger one stops paying."""
    with reporter.phase("sizes", 1.0) as phase:
        wanted, counted = sizes_for(asked, counter.known), {}
        for done, top_k in enumerate(wanted, start=1):
            counted[top_k] = counter.count(top_k)
            phase.update(done / len(wanted))
    calculator = Calculator(config, sides.offload, counted[asked])
    sizes = {top_k: calculator.size(top_k, found) for top_k, found in counted.items() if top_k}
    stops = stops_at(sizes.values()).top_k
    found = {asked: sides.offload.capacity}
    if (other := other_size(asked, stops, list(sizes))) is not None:
        found[other] = _capacity(config, trace, other, reporter)
    sizes |= {top_k: sizes[top_k].model_copy(update={"simulated": value}) for top_k, value in found.items()}
    return [without(config, sides.baseline, counted[0]), *sizes.values()], sizes[stops]


def _capacity(config: SimulationConfig, trace: Trace, top_k: int, reporter: Reporter) -> float:
    """What a hot set of another size carries in virtual time."""
    other = config.model_copy(update={"top_k": top_k, "rounds": 1})
    with simulated(other, trace, reporter) as made:
        return made.record.capacity[judged(config.design)[1].name]
