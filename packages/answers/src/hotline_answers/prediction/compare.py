"""Predict a real run by simulating it, and compare the prediction with the measurements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from analysis.disturbance import cost_sources
from analysis.disturbed_blocks import CostSources, DisturbedBlocks, withheld_by
from analysis.record import RunRecord, read_record
from analysis.statistics import relative_change
from experiment.phases.workload import read_data
from experiment.progress import Reporter
from foundation.designs.arms import arm
from hotline_answers.prediction.observed import LATENCIES, LoadAndArm, Observation, observe, read_observation
from hotline_simulator.costs import HostCosts, sources_of
from hotline_simulator.dedicated_switch.similar_run import config_like, read_real_record
from hotline_simulator.experiment import temporary_run

BOUNDS = {"mean": 0.15, "p99": 0.30}
"""Maximum relative error of a latency."""


class LatencyPrediction(NamedTuple):
    """A latency of one arm, µs."""

    load: str
    arm: str
    metric: str
    measured: float
    predicted: float

    @property
    def relative_error(self) -> float | None:
        return relative_change(self.predicted, self.measured)

    @property
    def holds(self) -> bool:
        if self.relative_error is None:
            return self.predicted == self.measured
        return abs(self.relative_error) <= BOUNDS[self.metric.rpartition("_")[2]]


class DifferencePrediction(NamedTuple):
    load: str
    arm: str
    metric: str
    measured: float  # relative change from the arm's reference
    predicted: float

    @property
    def holds(self) -> bool:
        return self.measured * self.predicted > 0


class RunPrediction(NamedTuple):
    latencies: tuple[LatencyPrediction, ...]
    differences: tuple[DifferencePrediction, ...]
    disturbed: DisturbedBlocks | None = None
    """First source of the costs, or of the run, with too many disturbed blocks; no verdict is given then."""


def predict(run: Path, hosts: HostCosts, reporter: Reporter) -> RunPrediction:
    record, measured = read_real_record(run), read_observation(run)
    disturbed = withheld_by((*sources_of(hosts), *sources_of_run(run)))
    config = config_like(record, hosts, record.config["arms"], rounds=rounds_of(record))
    with temporary_run(config, read_data(config, reporter), reporter) as simulated:
        prediction = compare(measured, observe(simulated.record, simulated.summary))
    return prediction._replace(disturbed=disturbed)


def compare_runs(run: Path, other: Path) -> RunPrediction:
    disturbed = withheld_by((*sources_of_run(other), *sources_of_run(run)))
    return compare(read_observation(run), read_observation(other))._replace(disturbed=disturbed)


def sources_of_run(run: Path) -> CostSources:
    record = read_record(run)
    return cost_sources(record, record.config["arms"])


def rounds_of(record: RunRecord) -> int:
    """Return the number of rounds of a run; with the same number, blocks begin with the same offsets."""
    return 1 + max(block.round for block in record.blocks)


def compare(measured: Observation, predicted: Observation) -> RunPrediction:
    common_cells = [cell for cell in measured.cells if cell in predicted.cells]
    latencies = (
        LatencyPrediction(*cell, metric, measured.cells[cell][metric], predicted.cells[cell][metric])
        for cell in common_cells
        for metric in LATENCIES
    )
    return RunPrediction(tuple(latencies), tuple(_differences(common_cells, measured, predicted)))


def _differences(
    common_cells: list[LoadAndArm], measured: Observation, predicted: Observation
) -> Iterator[DifferencePrediction]:
    for cell, metric in measured.signs:
        load, arm_name = cell
        reference_cell = (load, arm(arm_name).reference or "")
        if cell in common_cells and reference_cell in common_cells:
            measured_change, predicted_change = (
                relative_change(run.cells[cell][metric], run.cells[reference_cell][metric])
                for run in (measured, predicted)
            )
            # From 0 there is no relative change to predict.
            if measured_change is not None and predicted_change is not None:
                yield DifferencePrediction(*cell, metric, measured_change, predicted_change)
