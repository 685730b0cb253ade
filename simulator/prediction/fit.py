"""Costs of a real run: those with which virtual time takes as long, and as much of its cores, as it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from analysis.record import AnalysisError, read_record
from experiment.phases.workload import generate_trace, read_data
from foundation.designs.arms import renamed_arm
from simulator.aside import silent, simulated
from simulator.config import SimulationConfig
from simulator.costs import Hosts
from simulator.prediction.likeness import like, shared_cores
from simulator.prediction.observed import CPU, Cell, Observed, observed, observed_in

Progress = Callable[[int, int], None]
"""Told evaluations so far, and how many there may be."""


class Range(NamedTuple):
    """Of a cost: where it is looked for, and from where."""

    low: float
    start: float
    high: float


RANGES: Mapping[str, Range] = {
    "begin_ns": Range(50_000, 250_000, 3_000_000),
    "cold_ns": Range(1_000, 50_000, 1_000_000),
    "push_ns": Range(5_000, 50_000, 1_000_000),
    "send_ns": Range(1_000, 6_000, 20_000),
    "take_ns": Range(300, 3_000, 50_000),
    "idle_ns": Range(2_000, 30_000, 150_000),
    "wake_ns": Range(500, 3_000, 30_000),
    "program_ns": Range(200, 1_200, 6_000),
    "hit_ns": Range(500, 5_000, 20_000),
    "noise_every_us": Range(500, 20_000, 500_000),
    "noise_us": Range(5, 1_000, 10_000),
}
WEIGHTS = {
    "pull_mean": 1.0, "push_mean": 1.0, "pull_p50": 0.5, "push_p50": 0.5, "pull_p99": 0.7, "push_p99": 0.7,
    "worker_cpu": 1.0, "ps_cpu": 1.0,
}  # fmt: skip
"""Of the logarithms of what is off; tails repeat worse than means."""
_OF_KERNEL = ("program_ns", "hit_ns")
_STEP = 0.25
"""By so much a cost is changed to see what it does: less would be lost in what is drawn."""
_SHORT = {
    "rounds": 5, "block_ms": 280, "discard_ms": 30, "block_steps": 1, "profile_lanes": 100_000,
    "trace_steps": 600,
}  # fmt: skip
"""What makes one evaluation quick; rounds differ in when workers begin."""


class Fit(NamedTuple):
    """Costs, and what they leave of the differences."""

    hosts: Hosts
    aside: Mapping[str, float]
    """µs of CPU in a second that workers, or servers, take for what is no operation."""
    cells: Mapping[Cell, Mapping[str, tuple[float, float]]]
    """Load and arm -> metric -> what was measured, and with these costs."""
    capacity: Mapping[str, tuple[float, float]]
    """Arm -> the same of its steps/s in a closed loop."""


class Target(NamedTuple):
    """What is to be met: some arms of a run."""

    cells: Mapping[Cell, Mapping[str, float]]
    rates: Mapping[str, float]
    """Load -> steps/s."""
    capacity: Mapping[str, float]
    """Arm -> steps/s in a closed loop."""

    def aside(self, found: Observed) -> dict[str, float]:
        """µs of CPU in a second that a simulation does not explain: as much at every load."""
        return {
            metric: max(
                0.0,
                float(
                    np.median(
                        [
                            (of[metric] - found.cells[cell][metric]) * self.rates[cell[0]]
                            for cell, of in self.cells.items()
                        ]
                    )
                ),
            )
            for metric in CPU
        }

    def beside(self, found: Observed) -> dict[Cell, dict[str, tuple[float, float]]]:
        """What was measured and what was found, with what goes aside."""
        aside = self.aside(found)
        return {
            cell: {
                metric: (of[metric], found.cells[cell][metric] + aside.get(metric, 0.0) / self.rates[cell[0]])
                for metric in WEIGHTS
            }
            for cell, of in self.cells.items()
        }

    def residuals(self, found: Observed) -> NDArray[np.float64]:
        """Weighted logarithms of what is off; those of the capacities come last."""
        off = [
            WEIGHTS[metric] * np.log(made / measured)
            for metrics in self.beside(found).values()
            for metric, (measured, made) in metrics.items()
        ]
        carried = [np.log(found.capacity[arm] / of) for arm, of in self.capacity.items()]
        return np.array(off + carried)


def fit(run: Path, arms: Sequence[str], progress: Progress, most: int) -> Fit:
    """The costs of a run's hosts, from these arms at all of its loads; raises `AnalysisError`.

    Each evaluation simulates the first rounds. What a server or a worker takes for an RPC is drawn from the
    run's own log.
    """
    record = read_record(run)
    measured = observed_in(run)
    wanted = {cell: of for cell, of in measured.cells.items() if cell[1] in arms}
    if {cell[1] for cell in wanted} != set(arms):
        raise AnalysisError(renamed_arm(arms) or f"{run}: has not measured all of the arms {', '.join(arms)}")
    target = Target(wanted, record.offered_rate, {arm: measured.capacity[arm] for arm in arms})
    names = [name for name in RANGES if record.datapath == "kernel" or name not in _OF_KERNEL]
    base = Hosts.model_validate({**shared_cores(record), "measured": run})
    trial = Trial(like(record, base, arms, **_SHORT))
    low, start, high = (np.log([getattr(RANGES[name], of) for name in names]) for of in Range._fields)
    tried = 0

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal tried
        tried += 1
        progress(tried, most)
        return target.residuals(trial.of(with_costs(base, names, logs)))

    best = least_squares(
        residuals,
        start,
        bounds=(low, high),
        diff_step=_STEP / np.abs(start),
        # An evaluation for each cost finds out what it does.
        max_nfev=max(1, most // (len(names) + 1)),
        loss="soft_l1",
    )
    hosts = with_costs(base, names, best.x)
    found = trial.of(hosts)
    progress(most, most)
    carried = {arm: (of, found.capacity[arm]) for arm, of in target.capacity.items()}
    return Fit(hosts, target.aside(found), target.beside(found), carried)


def with_costs(base: Hosts, names: Sequence[str], logs: NDArray[np.float64]) -> Hosts:
    """Hosts with these costs, by their logarithms; those in ns are whole."""
    values = {name: float(value) for name, value in zip(names, np.exp(logs), strict=True)}
    whole = {name: round(value) if name.endswith("_ns") else value for name, value in values.items()}
    return Hosts.model_validate({**base.model_dump(), **whole})


class Trial:
    """One configuration with other costs each time; its workload is made once."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        self._reporter = silent()
        self._trace = read_data(config, self._reporter) or generate_trace(config, lambda done: None)

    def of(self, hosts: Hosts) -> Observed:
        """What these hosts take."""
        config = self._config.model_copy(update={"hosts": hosts})
        with simulated(config, self._trace, self._reporter) as made:
            return observed(made.record, made.summary)
