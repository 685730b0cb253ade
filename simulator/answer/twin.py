"""A real run again in virtual time: with a switch of its own, and as it was, to see how far that is off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from analysis.record import RunRecord, Virtual
from analysis.statistics import Comparison
from analysis.summary import Summary
from experiment.phases.workload import generate_trace, read_data
from foundation.designs.arms import judged
from hosts.workload.trace import Trace
from simulator.answer.cluster import SWITCH, on_cores_of_their_own
from simulator.aside import Made, silent, simulated
from simulator.config import SimulationConfig
from simulator.costs import Hosts, Network
from simulator.prediction.direct import corrected, costs_in, took
from simulator.prediction.likeness import like

_ROUNDS, _ROUNDS_TO_CORRECT = 10, 2


def virtual(run: Path, record: RunRecord, summary: Summary) -> Virtual:
    """What virtual time says of a run's first load, at the rate that it was offered, over the same steps.

    Costs are the run's own, of which one simulation more corrects two. Raises `AnalysisError` or `DataError`.
    """
    hosts, load = costs_in(run, record, summary), next(iter(summary.loads))
    shared = _like(record, load, hosts, _ROUNDS_TO_CORRECT)
    trace = read_data(shared, silent()) or generate_trace(shared, lambda done: None)
    with simulated(shared, trace, silent()) as made:
        hosts = corrected(hosts, took(run, record, summary), took(*made))
    shared = _like(record, load, hosts, _ROUNDS)
    own = _like(record, load, on_cores_of_their_own(hosts), _ROUNDS, network=SWITCH)
    # Simulations run without the interpreter's lock.
    with ThreadPoolExecutor(2) as pool:
        (of_shared, shared_capacity), (of_own, own_capacity) = pool.map(
            lambda config: _simulate(config, trace), (shared, own)
        )
    return Virtual(
        load=load,
        own=of_own,
        shared=of_shared,
        own_capacity=own_capacity,
        shared_capacity=shared_capacity,
        network=Network.model_validate(SWITCH).model_dump(mode="json"),
    )


def _simulate(config: SimulationConfig, trace: Trace) -> tuple[dict[str, Comparison], dict[str, float]]:
    """Return the lead arm's differences, and the arms' capacities in steps/s."""
    with simulated(config, trace, silent()) as made:
        return _differences(made), made.record.capacity


def _like(record: RunRecord, load: str, hosts: Hosts, rounds: int, **more: object) -> SimulationConfig:
    """The run's first load alone, in blocks as short as their steps allow."""
    first = {"loads": (float(load),), "offered": {load: record.offered_rate[load]}}
    short = {"rounds": rounds, "block_ms": 1, "discard_ms": 0}
    arms = tuple(arm.name for arm in judged(record.design))
    return like(record, hosts, arms, **first, **short, **more)


def _differences(made: Made) -> dict[str, Comparison]:
    _, lead = judged(made.record.design)
    return next(iter(made.summary.loads.values())).differences[lead.name]
