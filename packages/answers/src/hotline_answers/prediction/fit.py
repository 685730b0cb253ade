"""Fit the costs of hosts to a real run, by simulating it again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.disturbance import cost_sources
from analysis.record import AnalysisError
from experiment.phases.workload import generate_trace, read_data
from hotline_answers.prediction.observed import CPU, LoadAndArm, Observation, observe, read_observation
from hotline_simulator.costs import HostCosts
from hotline_simulator.dedicated_switch.similar_run import config_like, read_real_record, shared_cores
from hotline_simulator.experiment import quiet_reporter, temporary_run

FitProgress = Callable[[int, int], None]


class CostRange(NamedTuple):
    low: float
    start: float  # initial value of the fit
    high: float


RANGES: Mapping[str, CostRange] = {
    "begin_ns": CostRange(10_000, 150_000, 3_000_000),
    "end_ns": CostRange(10_000, 200_000, 3_000_000),
    "cold_ns": CostRange(1_000, 50_000, 1_000_000),
    "push_ns": CostRange(5_000, 50_000, 1_000_000),
    "send_ns": CostRange(1_000, 6_000, 20_000),
    "take_ns": CostRange(300, 3_000, 50_000),
    "idle_ns": CostRange(2_000, 30_000, 150_000),
    "wake_ns": CostRange(500, 5_000, 60_000),
    "program_ns": CostRange(200, 1_200, 6_000),
    "lookup_ns": CostRange(200, 2_000, 10_000),
    "hit_ns": CostRange(50, 1_000, 20_000),
    "answer_ns": CostRange(100, 1_000, 5_000),
    "noise_every_us": CostRange(500, 20_000, 500_000),
    "noise_us": CostRange(5, 1_000, 10_000),
}
"""Field of `hotline_simulator.costs.HostCosts` -> range in which it is fitted."""
WEIGHTS = {
    "pull_mean": 1.0, "push_mean": 1.0, "pull_p50": 0.5, "push_p50": 0.5, "pull_p99": 0.7, "push_p99": 0.7,
    "worker_cpu": 1.0, "ps_cpu": 1.0,
}  # fmt: skip
"""Weights of logarithmic errors; tail latencies vary more between runs than means."""
_KERNEL_COSTS = ("program_ns", "lookup_ns", "hit_ns", "answer_ns")
_GRADIENT_STEP = 0.25
"""Relative change of a cost for its gradient; the effect of a smaller change is less than the noise."""
_SHORT_RUN = {
    "rounds": 5, "block_ms": 280, "discard_ms": 30, "block_steps": 1, "profile_lanes": 100_000,
    "trace_steps": 600,
}  # fmt: skip


class Fit(NamedTuple):
    hosts: HostCosts
    unexplained: Mapping[str, float]
    """CPU time of all workers, or all servers, that is not for operations, µs a second."""
    cells: Mapping[LoadAndArm, Mapping[str, tuple[float, float]]]  # (measured, simulated)
    capacity: Mapping[str, tuple[float, float]]  # by arm: (measured, simulated)


class Target(NamedTuple):
    cells: Mapping[LoadAndArm, Mapping[str, float]]
    rates: Mapping[str, float]  # steps/s, by load
    capacity: Mapping[str, float]  # steps/s, by arm

    def unexplained(self, observation: Observation) -> dict[str, float]:
        """Return the CPU time a simulation does not explain, µs a second: a median over loads and arms."""

        def differences(metric: str) -> list[float]:
            return [
                (values[metric] - observation.cells[load, arm][metric]) * self.rates[load]
                for (load, arm), values in self.cells.items()
            ]

        return {metric: max(0.0, float(np.median(differences(metric)))) for metric in CPU}

    def pairs(self, observation: Observation) -> dict[LoadAndArm, dict[str, tuple[float, float]]]:
        unexplained = self.unexplained(observation)

        def simulated(cell: LoadAndArm, metric: str) -> float:
            load, _ = cell
            return observation.cells[cell][metric] + unexplained.get(metric, 0.0) / self.rates[load]

        return {
            cell: {metric: (values[metric], simulated(cell, metric)) for metric in WEIGHTS}
            for cell, values in self.cells.items()
        }

    def residuals(self, observation: Observation) -> NDArray[np.float64]:
        errors = [
            WEIGHTS[metric] * _logarithmic_error(simulated, measured)
            for metrics in self.pairs(observation).values()
            for metric, (measured, simulated) in metrics.items()
        ]
        capacities = [np.log(observation.capacity[arm] / capacity) for arm, capacity in self.capacity.items()]
        return np.array(errors + capacities)


def _logarithmic_error(simulated: float, measured: float) -> float:
    # No factor leads to 0 or from it: such an error counts as a factor of e.
    if simulated > 0 and measured > 0:
        return float(np.log(simulated / measured))
    return float(np.sign(simulated - measured))


def fit(run: Path, arms: Sequence[str], progress: FitProgress, max_evaluations: int) -> Fit:
    from scipy.optimize import least_squares  # here, since the import takes 0.3 s, which few commands need

    record = read_real_record(run)
    measured_run = read_observation(run)
    target_cells = {(load, arm): values for (load, arm), values in measured_run.cells.items() if arm in arms}
    if {arm for _, arm in target_cells} != set(arms):
        raise AnalysisError(f"{run}: has not measured all of the arms {', '.join(arms)}")
    target = Target(target_cells, record.offered_rate, {arm: measured_run.capacity[arm] for arm in arms})
    names = [name for name in RANGES if record.datapath == "kernel" or name not in _KERNEL_COSTS]
    base_hosts = HostCosts.model_validate(
        {**shared_cores(record), "measured": run, "sources": cost_sources(record, arms)}
    )
    config, reporter = config_like(record, base_hosts, arms, **_SHORT_RUN), quiet_reporter()
    trace = read_data(config, reporter) or generate_trace(config, lambda done: None)
    low, start, high = (
        np.log([getattr(RANGES[name], bound) for name in names]) for bound in CostRange._fields
    )
    evaluations = 0

    def observe_with(hosts: HostCosts) -> Observation:
        trial_config = config.model_copy(update={"hosts": hosts})
        with temporary_run(trial_config, trace, reporter) as simulated:
            return observe(simulated.record, simulated.summary)

    def residuals(log_costs: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal evaluations
        evaluations += 1
        progress(evaluations, max_evaluations)
        return target.residuals(observe_with(with_costs(base_hosts, names, log_costs)))

    solution = least_squares(
        residuals,
        start,
        bounds=(low, high),
        # `diff_step` is relative, and costs are logarithms.
        diff_step=_GRADIENT_STEP / np.abs(start),
        # Each step evaluates the gradient, with one evaluation for each cost.
        max_nfev=max(1, max_evaluations // (len(names) + 1)),
        loss="soft_l1",
    )
    hosts = with_costs(base_hosts, names, solution.x)
    best_observation = observe_with(hosts)
    progress(max_evaluations, max_evaluations)
    capacities = {
        arm: (capacity, best_observation.capacity[arm]) for arm, capacity in target.capacity.items()
    }
    return Fit(hosts, target.unexplained(best_observation), target.pairs(best_observation), capacities)


def with_costs(base_hosts: HostCosts, names: Sequence[str], log_costs: NDArray[np.float64]) -> HostCosts:
    values = {name: float(value) for name, value in zip(names, np.exp(log_costs), strict=True)}
    fitted = {name: round(value) if name.endswith("_ns") else value for name, value in values.items()}
    return HostCosts.model_validate({**base_hosts.model_dump(), **fitted})
