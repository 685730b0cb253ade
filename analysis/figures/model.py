"""A figure as data, from which image files, the page and CSV files are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
DASHES = ("solid", "dash", "dot", "dashdot")  # plotly's names


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    is_log: bool = False
    is_share: bool = False
    limits: tuple[float, float] | None = None
    """Limits of the axis on the page; None takes them from each panel's data."""


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
