"""What an RPC and a lane cost here, fitted to measured runs, and from there what offload gains anywhere.

A server's and a worker's CPU time a step, and how long an operation takes, are taken for sums of costs: so
much for each RPC that a server answers, each that the switch answers, and each key. Least squares in
proportion to what is measured, with no cost below 0. How far that is off is told: each run is predicted from
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from analysis.figures.model import Values
from studies.paper.measured import MeasuredRun
from studies.paper.packing import Packed

METRICS = {
    "servers": "ps_cpu_us_per_step",
    "workers": "worker_cpu_us_per_step",
    "pull": "pull_mean",
    "push": "push_mean",
}
"""What is predicted -> its metric in a summary."""
_OPERATIONS_A_STEP = 2


@dataclass(frozen=True, slots=True)
class Point:
    """A run: its packing, and what it measured of each metric without and with offload."""

    packed: Packed
    without: dict[str, float]
    with_hot: dict[str, float]

    def ratio(self, what: str) -> float:
        """What was measured with offload, as a part of without."""
        return self.with_hot[what] / self.without[what]


def point_of(run: MeasuredRun, packed: Packed) -> Point:
    """A measured run as costs are fitted to it."""
    found = {what: run.difference(metric) for what, metric in METRICS.items()}
    return Point(
        packed,
        {what: each.baseline for what, each in found.items()},
        {what: each.value for what, each in found.items()},
    )


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of each metric, in µs: of an RPC at a server, of one at the switch alone, of a key."""

    of: dict[str, Values]

    @staticmethod
    def fit(points: Sequence[Point]) -> Costs:
        """Of measured runs; three costs take two runs at least."""
        return Costs({what: _fit(points, what) for what in METRICS})

    def ratio(self, what: str, packed: Packed) -> float:
        """What a metric is with offload, as a part of without."""
        without, with_hot = _features(packed)
        return float(with_hot @ self.of[what] / (without @ self.of[what]))


def errors(points: Sequence[Point]) -> dict[str, float]:
    """Metric -> median of how far a run's ratio is from its prediction by the others, in parts."""
    return {
        what: float(
            np.median(
                [
                    abs(
                        Costs.fit([*points[:k], *points[k + 1 :]]).ratio(what, point.packed)
                        - point.ratio(what)
                    )
                    for k, point in enumerate(points)
                ]
            )
        )
        for what in METRICS
    }


def _features(packed: Packed) -> tuple[Values, Values]:
    """RPCs at servers, RPCs at the switch alone, and keys, of a step without and with offload."""
    without = np.array([packed.rpcs, 0.0, packed.keys])
    with_hot = np.array([packed.to_servers, packed.rpcs_with - packed.to_servers, packed.keys])
    return _OPERATIONS_A_STEP * without, _OPERATIONS_A_STEP * with_hot


def _fit(points: Sequence[Point], what: str) -> Values:
    rows, targets = [], []
    for point in points:
        for features, measured in zip(
            _features(point.packed), (point.without[what], point.with_hot[what]), strict=True
        ):
            rows.append(features / measured)
            targets.append(1.0)
    found: Values = nnls(np.array(rows), np.array(targets))[0]
    return found
