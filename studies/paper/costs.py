"""A linear cost model of RPCs and keys, fitted to measured runs, that predicts the effect of offload.

The CPU time per step of servers and workers, and the time of an operation, are sums of a cost per RPC that a
server answers, per RPC that the switch answers, and per key. The fit minimizes relative squared errors, with
costs of at least 0. The error is measured by predicting each run from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from analysis.figures.model import Values
from studies.paper.measured import MeasuredRun
from studies.paper.packing import Packing

METRICS = {
    "servers": "ps_cpu_us_per_step",
    "workers": "worker_cpu_us_per_step",
    "pull": "pull_mean",
    "push": "push_mean",
}
_OPERATIONS_PER_STEP = 2  # a pull and a push


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    packing: Packing
    without_offload: dict[str, float]  # µs by quantity
    with_offload: dict[str, float]  # µs by quantity

    def ratio(self, quantity: str) -> float:
        return self.with_offload[quantity] / self.without_offload[quantity]


def measured_point(run: MeasuredRun, packing: Packing) -> MeasuredPoint:
    comparisons = {quantity: run.difference(metric) for quantity, metric in METRICS.items()}
    return MeasuredPoint(
        packing,
        {quantity: each.reference for quantity, each in comparisons.items()},
        {quantity: each.value for quantity, each in comparisons.items()},
    )


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of each quantity, in µs: [RPC at a server, RPC at the switch only, key]."""

    by_quantity: dict[str, Values]

    @staticmethod
    def fit(points: Sequence[MeasuredPoint]) -> Costs:
        """Fit costs to at least two runs, since each run has two measurements and there are three costs."""
        return Costs({quantity: _fit(points, quantity) for quantity in METRICS})

    def ratio(self, quantity: str, packing: Packing) -> float:
        baseline_features, offload_features = _features(packing)
        return float(
            offload_features @ self.by_quantity[quantity] / (baseline_features @ self.by_quantity[quantity])
        )


def prediction_errors(points: Sequence[MeasuredPoint]) -> dict[str, float]:
    return {
        quantity: float(
            np.median(
                [
                    abs(
                        Costs.fit([*points[:k], *points[k + 1 :]]).ratio(quantity, point.packing)
                        - point.ratio(quantity)
                    )
                    for k, point in enumerate(points)
                ]
            )
        )
        for quantity in METRICS
    }


def _features(packing: Packing) -> tuple[Values, Values]:
    """Return [RPCs at servers, RPCs at the switch only, keys] of a step, without and with offload."""
    baseline_features = np.array([packing.rpcs, 0.0, packing.keys])
    offload_features = np.array(
        [
            packing.server_rpcs_with_offload,
            packing.rpcs_with_offload - packing.server_rpcs_with_offload,
            packing.keys,
        ]
    )
    return _OPERATIONS_PER_STEP * baseline_features, _OPERATIONS_PER_STEP * offload_features


def _fit(points: Sequence[MeasuredPoint], quantity: str) -> Values:
    rows, targets = [], []
    for point in points:
        for features, measured in zip(
            _features(point.packing),
            (point.without_offload[quantity], point.with_offload[quantity]),
            strict=True,
        ):
            # Divided by the measured value, errors are relative.
            rows.append(features / measured)
            targets.append(1.0)
    costs: Values = nnls(np.array(rows), np.array(targets))[0]
    return costs
