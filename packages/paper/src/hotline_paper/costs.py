"""A linear cost model of RPCs and keys, fitted to measured runs, that predicts the effect of offload.

The CPU time per step of servers and workers, and the time of an operation, are sums of a cost per RPC that a
server answers, what the switch's program adds to it with offload, a cost per RPC that the switch answers, per
key, and per operation. The fit minimizes relative squared errors, with costs of at least 0. The error is
measured by predicting each run from the others. `MeasuredRun` is a run on this machine, as read from its
folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from analysis.figures.model import Values
from analysis.record import AnalysisError, RunRecord, read_record
from analysis.statistics import Comparison
from analysis.summary import LoadSummary, Summary, read_summary
from experiment.run_config import Config
from foundation.designs.hotset import OFFLOAD
from foundation.settings import first_error
from hotline_paper.packing import MeanPacking

METRICS = {
    "servers": "ps_cpu_us_per_step",
    "workers": "worker_cpu_us_per_step",
    "pull": "pull_mean",
    "push": "push_mean",
}
_OPERATIONS_PER_STEP = 2  # a pull and a push


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    folder: Path
    record: RunRecord
    summary: Summary
    config: Config

    @property
    def load(self) -> LoadSummary:
        # Short runs have one load; of others, the first is shown.
        return next(iter(self.summary.loads.values()))

    def difference(self, metric: str) -> Comparison:
        comparison = self.load.differences.get(OFFLOAD.name, {}).get(metric)
        if comparison is None or comparison.ratio is None:
            raise AnalysisError(f"{self.folder}: {metric} of arm {OFFLOAD.name} was not measured")
        return comparison


def read_measured(folder: Path) -> MeasuredRun:
    record = read_record(folder)
    try:
        config = Config.model_validate(record.config)
    except ValidationError as error:
        raise AnalysisError(f"{folder}: {first_error(error)}") from error
    return MeasuredRun(folder, record, read_summary(folder), config)


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    packing: MeanPacking
    without_offload: dict[str, float]  # µs by quantity
    with_offload: dict[str, float]  # µs by quantity

    def ratio(self, quantity: str) -> float:
        return self.with_offload[quantity] / self.without_offload[quantity]


def measured_point(run: MeasuredRun, packing: MeanPacking) -> MeasuredPoint:
    comparisons = {quantity: run.difference(metric) for quantity, metric in METRICS.items()}
    return MeasuredPoint(
        packing,
        {quantity: each.reference for quantity, each in comparisons.items()},
        {quantity: each.value for quantity, each in comparisons.items()},
    )


@dataclass(frozen=True, slots=True)
class RpcCosts:
    """Costs of each quantity, in µs.

    They are [RPC at a server, addition to it with offload, RPC at the switch only, key, operation].
    """

    by_quantity: dict[str, Values]

    @staticmethod
    def fit(points: Sequence[MeasuredPoint]) -> RpcCosts:
        """Fit costs to at least three runs, since each run has two measurements and there are five costs."""
        return RpcCosts({quantity: _fit(points, quantity) for quantity in METRICS})

    def ratio(self, quantity: str, packing: MeanPacking) -> float:
        baseline, offload = _features(packing) @ self.by_quantity[quantity]
        return float(offload / baseline)


def prediction_errors(points: Sequence[MeasuredPoint]) -> dict[str, list[float]]:
    """Return the distances of predicted and measured change of each run, by quantity."""
    costs_without_point = [RpcCosts.fit([*points[:k], *points[k + 1 :]]) for k in range(len(points))]

    def errors(quantity: str) -> list[float]:
        return [
            abs(costs.ratio(quantity, point.packing) - point.ratio(quantity))
            for costs, point in zip(costs_without_point, points, strict=True)
        ]

    return {quantity: errors(quantity) for quantity in METRICS}


def _features(packing: MeanPacking) -> Values:
    """Return what has the costs of `RpcCosts`, in a step without and with offload: [2, 5]."""
    at_servers, at_switch = packing.server_rpcs_with_offload, packing.rpcs_with_offload
    features = [
        [packing.rpcs, 0.0, 0.0, packing.keys, 1.0],
        [at_servers, at_servers, at_switch - at_servers, packing.keys, 1.0],
    ]
    return _OPERATIONS_PER_STEP * np.array(features)


def _fit(points: Sequence[MeasuredPoint], quantity: str) -> Values:
    from scipy.optimize import nnls  # here, since the import takes 0.3 s, which few commands need

    features = np.concatenate([_features(point.packing) for point in points])
    measured = [(each.without_offload[quantity], each.with_offload[quantity]) for each in points]
    # Divided by the measured value, errors are relative.
    costs: Values = nnls(features / np.reshape(measured, (-1, 1)), np.ones(len(features)))[0]
    return costs
