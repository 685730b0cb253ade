"""Simulate a real run again: with a dedicated switch, and as it was measured, to check the simulation."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import fmean

from analysis.disturbance import cost_sources
from analysis.record import RunRecord, Virtual
from analysis.statistics import Comparison
from analysis.summary import summarise_for_costs
from experiment.phases.workload import generate_trace, read_data
from experiment.session import HOT_SET_FILE
from foundation.designs.arms import baseline_and_lead
from foundation.errors import DataError
from hosts.workload.trace import Trace
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.dedicated_switch.similar_run import (
    TRIAL_COLD_NS,
    baseline_costs,
    config_like,
    correct_costs,
    costs_of_run,
    fit_cold_time,
)
from hotline_simulator.devices import DEDICATED_SWITCH_NETWORK, with_dedicated_cores
from hotline_simulator.experiment import TemporaryRun, quiet_reporter, temporary_run

log = logging.getLogger(__name__)
_MAX_ROUNDS, _ROUNDS_TO_CORRECT = 12, 2  # of the results, and of the simulations that correct the costs


def simulate_dedicated_switch(run: Path, record: RunRecord) -> Virtual:
    """Simulate the run's first load with costs that are fitted to its undisturbed blocks."""
    whole_record = record
    record, summary = summarise_for_costs(run, record)
    hosts, load = costs_of_run(run, record, summary), next(iter(summary.loads))
    shared_config = _config_like(record, load, hosts, _ROUNDS_TO_CORRECT)
    trace, hot_set = trace_of(run, shared_config), run / HOT_SET_FILE

    def simulate(config: SimulationConfig) -> AbstractContextManager[TemporaryRun]:
        existing_hot_set = hot_set if hot_set.exists() else None
        return temporary_run(config, trace, quiet_reporter(), hot_set=existing_hot_set)

    measured = baseline_costs(run, record, summary)
    with simulate(shared_config) as simulated:
        hosts = correct_costs(hosts, measured, baseline_costs(*simulated))
    baseline = baseline_and_lead(record.design)[0].name
    measured_capacity = fmean(
        capacity[baseline] for capacity in summary.measured_capacities if baseline in capacity
    )
    trial_hosts = hosts.model_copy(update={"cold_ns": TRIAL_COLD_NS})
    with simulate(_config_like(record, load, trial_hosts, _ROUNDS_TO_CORRECT)) as simulated:
        trial_capacity = simulated.record.capacity[baseline]
        hosts = fit_cold_time(hosts, measured, measured_capacity, baseline_costs(*simulated), trial_capacity)
    # Rounds of the same number begin with the same offsets of the workers, in the run and in its simulation.
    rounds = min(_MAX_ROUNDS, 1 + max(block.round for block in whole_record.blocks))
    shared_config = _config_like(record, load, hosts, rounds)
    dedicated_config = _config_like(
        record, load, with_dedicated_cores(hosts), rounds, network=DEDICATED_SWITCH_NETWORK
    )
    # Simulations release the GIL.
    with ThreadPoolExecutor(2) as pool:
        (shared_differences, shared_capacity), (dedicated_differences, dedicated_capacity) = pool.map(
            lambda config: _differences_and_capacity(simulate(config)), (shared_config, dedicated_config)
        )
    return Virtual(
        load=load,
        own=dedicated_differences,
        shared=shared_differences,
        own_capacity=dedicated_capacity,
        shared_capacity=shared_capacity,
        network=Network.model_validate(DEDICATED_SWITCH_NETWORK).model_dump(mode="json"),
        sources=cost_sources(whole_record, [arm.name for arm in baseline_and_lead(record.design)]),
    )


def trace_of(run: Path, config: SimulationConfig) -> Trace:
    """Return the trace that a run left, or make it again if there is none, or a damaged one."""
    if (run / "trace").is_dir():
        try:
            return Trace.load(run / "trace")
        except DataError as error:
            log.warning("%s; it is made again", error)
    return read_data(config, quiet_reporter()) or generate_trace(config, lambda done: None)


def _differences_and_capacity(
    simulation: AbstractContextManager[TemporaryRun],
) -> tuple[dict[str, Comparison], dict[str, float]]:
    with simulation as simulated:
        _, lead = baseline_and_lead(simulated.record.design)
        load = next(iter(simulated.summary.loads.values()))
        return load.differences[lead.name], simulated.record.capacity


def _config_like(
    record: RunRecord, load: str, hosts: HostCosts, rounds: int, **settings: object
) -> SimulationConfig:
    load_settings = {"loads": (float(load),), "offered": {load: record.offered_rate[load]}}
    round_settings = {"rounds": rounds, "block_ms": 1, "discard_ms": 0}
    # Taken from the record, because choosing them again takes half a second.
    training_settings = {name: record.workload.get(name) for name in ("learning_rate", "scale")}
    arms = tuple(arm.name for arm in baseline_and_lead(record.design))
    return config_like(
        record, hosts, arms, **load_settings, **round_settings, **training_settings, **settings
    )
