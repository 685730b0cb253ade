"""Fit the parameters of the model of servers to figures: all points of a grid that agree with every reading.

The readings are bounds, so the result is a set of parameters that fit as well, and not a best one. Its middle
is the point that is nearest to all others (the medoid), in steps of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from hotline_paper.regime.model import Parameters, Values
from hotline_paper.regime.readings import (
    READINGS,
    SERVERS_IN_FIG_1,
    FigureReading,
    ServersOf,
    predicted_readings,
)

GRID: Mapping[str, Sequence[float]] = {
    "compute_ms": (0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4),
    "delay_us": (1, 2, 5, 10, 15, 25, 50, 100),
    "serve_us": (4, 8, 12, 16, 24, 32, 48, 64, 96),
    "connection_ns": (0, 2, 5, 10, 20, 50, 100, 200, 500),
    "contention": (0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2),
}
Predict = Callable[[Parameters], Sequence[Values]]


class RegimeFit(NamedTuple):
    accepted: Parameters
    """Arrays of one value for each accepted point of the grid."""
    middle: Parameters
    """The accepted point that is nearest to all others, as numbers."""
    rejections: tuple[int, ...]
    """Number of points that each reading alone rejects."""
    size: int
    """Number of points of the grid."""

    def interval(self, name: str) -> tuple[float, float]:
        """Return the smallest and the largest accepted value of a parameter."""
        values = np.asarray(getattr(self.accepted, name))
        return float(values.min()), float(values.max())


def fit(predict: Predict, readings: Sequence[FigureReading] = READINGS) -> RegimeFit:
    """Return the points of `GRID` whose predicted readings are all within bounds.

    Raises `DataError` if there is none.
    """
    places = np.stack(
        [axis.ravel() for axis in np.meshgrid(*(np.arange(len(v)) for v in GRID.values()), indexing="ij")]
    )
    points = [np.array(values, np.float64)[axis] for values, axis in zip(GRID.values(), places, strict=True)]
    predicted = predict(Parameters(*points))
    is_within = np.stack(
        [(each.low <= value) & (value <= each.high) for each, value in zip(readings, predicted, strict=True)]
    )
    accepted: NDArray[np.bool_] = np.asarray(is_within.all(axis=0))
    if not accepted.any():
        narrowest = readings[int(np.argmin(is_within.sum(axis=1)))]
        raise DataError(
            f"expected parameters that agree with all readings, found none; Fig. {narrowest.figure} "
            f"({narrowest.quantity}) rejects most"
        )
    middle = _medoid(places[:, accepted])
    values = [each[accepted] for each in points]
    return RegimeFit(
        accepted=Parameters(*values),
        middle=Parameters(*(float(each[middle]) for each in values)),
        rejections=tuple(int((~each).sum()) for each in is_within),
        size=len(accepted),
    )


def fit_to_figures(name: str) -> RegimeFit:
    """Return the fit with the servers of Fig. 1 that `SERVERS_IN_FIG_1` has under this name."""
    servers_of: ServersOf = SERVERS_IN_FIG_1[name]
    return fit(lambda parameters: predicted_readings(parameters, servers_of))


def _medoid(places: NDArray[np.int64]) -> int:
    """Return the number of the point, of [parameters, points], with the smallest sum of distances."""
    distances = sum(
        np.abs(axis[:, np.newaxis] - axis[np.newaxis, :]).sum(axis=1) for axis in places.astype(np.int64)
    )
    return int(np.argmin(distances))
