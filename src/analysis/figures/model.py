"""A figure as data, from which image files, the page and CSV files are made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from foundation.designs.arms import all_arms
from foundation.logs.columns import METRICS

Values = npt.NDArray[np.float64]
Fact = tuple[str, ...]
Kind = Literal["lines", "steps", "points", "bars", "map", "heights", "spans"]

COLOURS = dict(zip(METRICS, ("#9ecae1", "#4292c6", "#e6550d", "#fdae6b", "#a5a5a5"), strict=True))
"""Metric -> colour, readable on white and on black."""
_OTHER_COLOURS = ("#3b7dd8", "#e07b1a", "#2c9a57", "#9467bd", "#c44e52", "#17a2b8", "#8c6d31", "#7f7f7f")
MAP_LIMIT_PERCENT = 60
"""Change at which a map's colour scale ends."""
_HEADROOM = 1.25  # limit of an axis from 0, as a ratio to the largest value
_HALF_DECADE = math.sqrt(10)
DASHES = ("solid", "dash", "dot", "dashdot")  # plotly's names


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    is_log: bool = False
    is_share: bool = False
    limits: tuple[float, float] | None = None
    """Limits of the axis; None takes them from each panel's data."""
    max_alike_spread: float = 0.05
    """Spread of values, as a share of the largest, up to which they count as alike."""

    def limits_of(self, values: Values, is_log: bool) -> tuple[float, float] | None:
        """Return the axis' limits for these values, or None if limits close to the values show them well.

        Values that are alike, or nearly so, get limits from 0, or of a decade on a logarithmic axis, because
        close limits would magnify a difference that is none.
        """
        finite = values[np.isfinite(values)]
        if self.limits is not None or not len(finite):
            return self.limits
        low, high = float(finite.min()), float(finite.max())
        if is_log:
            middle = math.sqrt(low * high) if low > 0 else 0.0
            is_alike = middle > 0 and high <= (1 + self.max_alike_spread) * low
            return (middle / _HALF_DECADE, middle * _HALF_DECADE) if is_alike else None
        if high - low > self.max_alike_spread * max(abs(low), abs(high)):
            return None
        return (min(0.0, _HEADROOM * low), max(0.0, _HEADROOM * high)) if low or high else (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    x: Values | Sequence[str]
    """Values on the x axis [n]; names of bars for `bars`."""
    y: Values
    colour: str = ""
    dash: int = 0  # index in `DASHES`
    low: Values | None = None
    """Lower bounds of a 95 % interval of y, [n]."""
    high: Values | None = None
    z: Values | None = None
    """Values [len(y), len(x)] at each x and y: relative changes of a map, or heights from 0 to 1. On a map, a
    series without z marks points."""
    level: float | None = None  # of heights: z of a contour line

    @property
    def has_categories(self) -> bool:
        return len(self.x) > 0 and isinstance(self.x[0], str)

    def columns(self) -> dict[str, Values | Sequence[str]]:
        if self.z is not None:
            x, y = np.meshgrid(np.asarray(self.x, dtype=np.float64), self.y)
            return {"x": x.ravel(), "y": y.ravel(), "z": self.z.ravel()}
        bounds = {
            name: bound for name, bound in (("low", self.low), ("high", self.high)) if bound is not None
        }
        return {"x": self.x, "y": self.y, **bounds}


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    series: Sequence[Series]
    x: Axis | None = None
    """X axis of this panel; None uses the figure's. With own x axes, panels share y axes only within rows."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure; it has no series if the sources had no data for it."""

    name: str
    title: str
    x: Axis
    y: Axis
    panels: Sequence[Panel]
    kind: Kind = "lines"
    """Kind of the drawing. Bars are horizontal and stacked, one for each name; spans are horizontal, begin at
    `low` and are `y` long. Heights are a surface with contour lines, z from 0 to 1. On a map, series
    without z are marked by their names."""
    caption: str = ""
    facts: Mapping[Fact, float] = field(default_factory=dict)
    """Numbers in the tables of a report, by key, such as (arm, operation, quantity)."""

    def values_on(self, side: Literal["x", "y"], series: Iterable[Series]) -> Values:
        """Return the values of series on an axis; none if it has names, or if the drawing begins at 0."""
        if self.kind not in ("lines", "steps", "points"):
            return np.zeros(0)
        columns = [curve.columns() for curve in series if side == "y" or not curve.has_categories]
        names = ("x",) if side == "x" else ("y", "low", "high")
        arrays = [
            np.asarray(each[name], dtype=np.float64) for each in columns for name in names if name in each
        ]
        return np.concatenate([np.zeros(0), *arrays])

    @property
    def is_empty(self) -> bool:
        return not any(len(series.y) for panel in self.panels for series in panel.series)

    def table(self) -> pl.DataFrame:
        parts = [
            pl.DataFrame({"panel": panel.title, "series": series.name, **series.columns()})
            for panel in self.panels
            for series in panel.series
        ]
        return pl.concat(parts, how="diagonal") if parts else pl.DataFrame()


def colour_of(name: str, number: int) -> str:
    arms = all_arms()
    return (
        arms[name].colour if name in arms else COLOURS.get(name, _OTHER_COLOURS[number % len(_OTHER_COLOURS)])
    )
