"""Costs of a real run: those with which virtual time takes as long, and as much of its cores, as it did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import least_squares

from analysis.record import read_record
from analysis.summary import summarise
from simulator.config import SimulationConfig
from simulator.costs import Hosts
from simulator.experiment import simulate
from simulator.prediction.likeness import like, shared_cores
from simulator.prediction.observed import Cell, Observed, observed, observed_in
from topologies.phases.workload import generate_trace, read_data
from topologies.progress import Reporter

Progress = Callable[[int, int], None]
"""Told evaluations so far, and how many there may be."""


class Range(NamedTuple):
    """Of a cost: where it is looked for, and from where."""

    low: float
    start: float
    high: float


RANGES: Mapping[str, Range] = {
    "begin_ns": Range(50_000, 300_000, 3_000_000),
    "send_ns": Range(1_000, 6_000, 20_000),
    "take_ns": Range(300, 3_000, 50_000),
    "idle_ns": Range(2_000, 30_000, 150_000),
    "wake_ns": Range(500, 3_000, 30_000),
    "program_ns": Range(200, 1_200, 6_000),
    "hit_ns": Range(500, 5_000, 20_000),
    "noise_every_us": Range(200, 3_000, 100_000),
    "noise_us": Range(5, 100, 3_000),
}
WEIGHTS = {
    "pull_mean": 1.0, "push_mean": 1.0, "pull_p99": 0.5, "push_p99": 0.5, "worker_cpu": 1.0, "ps_cpu": 1.0,
}  # fmt: skip
"""Of the logarithms of what is off; tails repeat worse than means."""
MOST_EVALUATIONS = 60
_STEP = 0.08
"""By so much a cost is changed to see what it does: less would be lost in what is drawn."""
_SECONDS, _LANES = 1.0, 100_000


class Fit(NamedTuple):
    """Costs, and what they leave of the differences."""

    hosts: Hosts
    cells: Mapping[Cell, Mapping[str, tuple[float, float]]]
    """Load and arm -> metric -> what was measured, and with these costs."""


def fit(run: Path, arms: Sequence[str], load: str, progress: Progress, most: int = MOST_EVALUATIONS) -> Fit:
    """The costs of a run's hosts, from these arms of one of its loads; raises `AnalysisError`.

    Each evaluation simulates a second of the load. What a server or a worker takes for an RPC is drawn from
    the run's own log.
    """
    target, record = observed_in(run), read_record(run)
    kernel = record.datapath == "kernel"
    names = [name for name in RANGES if kernel or name not in ("program_ns", "hit_ns")]
    base = Hosts.model_validate({**shared_cores(record), "measured": run})
    cells = [cell for cell in target.cells if cell[0] == load and cell[1] in arms]
    trial = Trial(like(record, base, arms, **_short(load)))
    tried = 0

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal tried
        found = trial.of(with_costs(base, names, logs))
        tried += 1
        progress(tried, most)
        return np.array(
            [
                weight * np.log(found.cells[cell][metric] / target.cells[cell][metric])
                for cell in cells
                for metric, weight in WEIGHTS.items()
            ]
        )

    low, start, high = (np.log([getattr(RANGES[name], of) for name in names]) for of in Range._fields)
    # An evaluation for each cost finds out what it does.
    rounds = max(1, most // (len(names) + 1))
    best = least_squares(
        residuals, start, bounds=(low, high), diff_step=_STEP / np.abs(start), max_nfev=rounds, loss="soft_l1"
    )
    hosts = with_costs(base, names, best.x)
    found = trial.of(hosts)
    progress(most, most)
    return Fit(
        hosts,
        {
            cell: {metric: (target.cells[cell][metric], found.cells[cell][metric]) for metric in WEIGHTS}
            for cell in cells
        },
    )


def with_costs(base: Hosts, names: Sequence[str], logs: NDArray[np.float64]) -> Hosts:
    """Hosts with these costs, by their logarithms; those in ns are whole."""
    values = {name: float(value) for name, value in zip(names, np.exp(logs), strict=True)}
    whole = {name: round(value) if name.endswith("_ns") else value for name, value in values.items()}
    return Hosts.model_validate({**base.model_dump(), **whole})


def _short(load: str) -> dict[str, object]:
    """Changes that make one evaluation quick."""
    return {
        "loads": (float(load),),
        "rounds": 1,
        "block_ms": round(1e3 * _SECONDS),
        "discard_ms": 50,
        "block_steps": 1,
        "profile_lanes": _LANES,
        "trace_steps": 600,
    }


class Trial:
    """One configuration with other costs each time; its workload is made once."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        self._reporter = Reporter(Console(quiet=True))
        self._trace = read_data(config, self._reporter) or generate_trace(config, lambda done: None)

    def of(self, hosts: Hosts) -> Observed:
        """What these hosts take."""
        config = self._config.model_copy(update={"hosts": hosts})
        with TemporaryDirectory(prefix="hotline-") as folder:
            run = Path(folder)
            (run / "parts").mkdir()
            record = asyncio.run(simulate(config, self._trace, run, self._reporter))
            return observed(record, summarise(run, record))
