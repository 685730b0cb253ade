"""A real run beside what virtual time makes of it: what is off, by how much, and which differences agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from analysis.record import RunRecord, read_record
from experiment.phases.workload import read_data
from experiment.progress import Reporter
from foundation.designs.arms import arm
from simulator.aside import simulated
from simulator.costs import Hosts
from simulator.prediction.likeness import like
from simulator.prediction.observed import LATENCIES, Cell, Observed, observed, observed_in

BOUNDS = {"mean": 0.15, "p99": 0.30}
"""By how much a latency may be off."""


class Compared(NamedTuple):
    """One number of one arm."""

    load: str
    arm: str
    metric: str
    measured: float
    predicted: float

    @property
    def off(self) -> float:
        """In parts of what was measured."""
        return self.predicted / self.measured - 1

    @property
    def holds(self) -> bool:
        """Whether it is within its bound."""
        return abs(self.off) <= BOUNDS[self.metric.rpartition("_")[2]]


class Difference(NamedTuple):
    """Of an arm to its baseline, that the real run can tell from 0."""

    load: str
    arm: str
    metric: str
    measured: float
    """In parts."""
    predicted: float

    @property
    def holds(self) -> bool:
        """Whether it has the same sign."""
        return self.measured * self.predicted > 0


class Prediction(NamedTuple):
    """All that is compared."""

    latencies: tuple[Compared, ...]
    differences: tuple[Difference, ...]


def predict(run: Path, hosts: Hosts, reporter: Reporter) -> Prediction:
    """Simulate a real run with these costs, at the rates that it was offered; raises `AnalysisError`."""
    record, target = read_record(run), observed_in(run)
    config = like(record, hosts, record.config["arms"], rounds=rounds_of(record))
    with simulated(config, read_data(config, reporter), reporter) as made:
        return compare(target, observed(made.record, made.summary))


def rounds_of(record: RunRecord) -> int:
    """How many it had: as many again begin their blocks with the same offsets."""
    return 1 + max(block.round for block in record.blocks)


def compare(measured: Observed, predicted: Observed) -> Prediction:
    """What both have."""
    common = [cell for cell in measured.cells if cell in predicted.cells]
    latencies = (
        Compared(*cell, metric, measured.cells[cell][metric], predicted.cells[cell][metric])
        for cell in common
        for metric in LATENCIES
    )
    return Prediction(tuple(latencies), tuple(_differences(common, measured, predicted)))


def _differences(common: list[Cell], measured: Observed, predicted: Observed) -> Iterator[Difference]:
    for cell, metric in measured.signs:
        base = (cell[0], arm(cell[1]).baseline or "")
        if cell in common and base in common:
            changes = (of.cells[cell][metric] / of.cells[base][metric] - 1 for of in (measured, predicted))
            yield Difference(*cell, metric, *changes)
