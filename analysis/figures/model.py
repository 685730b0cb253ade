"""A figure as data: what is drawn of it, on paper or on the page, is also what its CSV has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from foundation.designs.arms import every
from foundation.logs.columns import METRICS

Values = npt.NDArray[np.float64]
Fact = tuple[str, ...]
Kind = Literal["lines", "steps", "points", "bars", "map", "heights", "spans"]

COLOURS = dict(zip(METRICS, ("#9ecae1", "#4292c6", "#e6550d", "#fdae6b", "#a5a5a5"), strict=True))
"""Of metrics, on white and on black."""
_OTHERS = ("#3b7dd8", "#e07b1a", "#2c9a57", "#9467bd", "#c44e52", "#17a2b8", "#8c6d31", "#7f7f7f")
DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True, slots=True)
class Axis:
    """What is along an axis, with its unit."""

    title: str
    is_log: bool = False
    is_share: bool = False
    """From 0 to 1, shown in per cent."""
    reach: tuple[float, float] | None = None
    """From where to where on the page; else as the data of each panel has it."""


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, or one colour of bars."""

    name: str
    x: Values | Sequence[str]
    """[n]; names of bars for `bars`."""
    y: Values
    """[n]"""
    colour: str = ""
    dash: int = 0
    """Which of `DASHES`."""
    low: Values | None = None
    """[n], and below the upper bounds: of a 95 % interval of y."""
    high: Values | None = None
    z: Values | None = None
    """[len(y), len(x)]: what a map shows at each x and y: a change, in parts; heights are shares. Without it
    they are marked."""
    level: float | None = None
    """Of heights: where a line is drawn."""

    def columns(self) -> dict[str, Values | Sequence[str]]:
        """What its rows have: x and y, bounds or z where there are any."""
        if self.z is not None:
            x, y = np.meshgrid(np.asarray(self.x, dtype=np.float64), self.y)
            return {"x": x.ravel(), "y": y.ravel(), "z": self.z.ravel()}
        bounds = {
            name: bound for name, bound in (("low", self.low), ("high", self.high)) if bound is not None
        }
        return {"x": self.x, "y": self.y, **bounds}


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. All panels of a figure have the same axes, so that they can be compared."""

    title: str
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; without any series there was nothing to draw it from."""

    name: str
    """Of its files: `fig-04`."""
    title: str
    x: Axis
    y: Axis
    panels: Sequence[Panel]
    kind: Kind = "lines"
    """Bars are stacked and lie, one for each name; spans lie, too, from `low` on. On a map series without z
    are marked by their names."""
    caption: str = ""
    """How to read it, and what the paper shows there."""
    facts: Mapping[Fact, float] = field(default_factory=dict)
    """Numbers of it that tables have: (curve, operation, quantity) and the like -> value."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be drawn."""
        return not any(len(series.y) for panel in self.panels for series in panel.series)

    def table(self) -> pl.DataFrame:
        """The data: columns panel, series, x, y; low and high where there are intervals, z of a map."""
        parts = [
            pl.DataFrame({"panel": panel.title, "series": series.name, **series.columns()})
            for panel in self.panels
            for series in panel.series
        ]
        return pl.concat(parts, how="diagonal") if parts else pl.DataFrame()


def colour_of(name: str, number: int) -> str:
    """The colour of an arm or a metric; of anything else the colour of that number."""
    arms = every()
    return arms[name].colour if name in arms else COLOURS.get(name, _OTHERS[number % len(_OTHERS)])
