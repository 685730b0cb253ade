from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from analysis.figures.latency import CDF
from analysis.figures.model import DASHES, MAP_LIMIT_PERCENT, Axis, Figure, Kind, Series, Values
from analysis.wording import ReportTable, Row, Sentence, plain
from foundation.text import signed

T = TypeVar("T")
Spec: TypeAlias = dict[str, Any]  # JSON that script.js turns into a plotly figure

_SIGNIFICANT_DIGITS = 5
_QUANTILES = {"p1": 0.01, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}
_MAX_TABLE_ROWS = 40  # of a table of points
_MAX_MAP_ROWS = 9  # and columns, of the table of a map
_ROUNDING = 1e-9  # error of a sum of shares


# CSS styles by `Series.dash`; CSS has no dash-dotted line.
_LINE_STYLES = ("solid", "dashed", "dotted", "dashed")


@dataclass(frozen=True, slots=True)
class Toggle:
    name: str
    colour: str
    line: str


@dataclass(frozen=True, slots=True)
class Plot:
    name: str
    title: str
    caption: str
    toggles: tuple[Toggle, ...]
    log_axes: Sequence[str]  # "x", "y", or both
    numbers: ReportTable
    spec: Spec


def _toggles(series: Sequence[Series]) -> tuple[Toggle, ...]:
    toggles: dict[tuple[str, str], Toggle] = {}
    for curve in series:
        toggles.setdefault(
            (curve.name, curve.colour), Toggle(curve.name, curve.colour, _LINE_STYLES[curve.dash])
        )
    return tuple(toggles.values())


def plot(figure: Figure) -> Plot:
    has_bars = figure.kind in ("bars", "spans")
    has_toggles = figure.kind not in ("map", "heights", "spans")
    series = [curve for panel in figure.panels for curve in panel.series] if has_toggles else []
    return Plot(
        figure.name,
        figure.title,
        figure.caption,
        _toggles(series),
        [side for side, axis in (("x", figure.x), ("y", figure.y)) if axis.is_log],
        _number_table(figure),
        {
            "name": figure.name,
            "title": figure.title,
            "panels": [
                {
                    "title": panel.title,
                    "traces": list(_traces(panel.series, figure)),
                    "x": _axis(
                        panel.x or figure.x,
                        figure.values_on("x", panel.series),
                        is_categorical=not has_bars and _has_categories(figure),
                    ),
                    "y": _axis(
                        figure.y,
                        figure.values_on("y", panel.series),
                        is_categorical=has_bars,
                        is_reversed=has_bars,
                    ),
                }
                for panel in figure.panels
                if panel.series
            ],
        },
    )


def _axis(axis: Axis, values: Values, is_categorical: bool, is_reversed: bool = False) -> Spec:
    return {
        "title": axis.title,
        "is_share": axis.is_share,
        "is_categorical": is_categorical,
        "reversed": is_reversed,
        "range": axis.limits_of(values, is_log=False),
        "log_range": axis.limits_of(values, is_log=True) if axis.is_log else None,
    }


def _has_categories(figure: Figure) -> bool:
    return any(curve.has_categories for panel in figure.panels for curve in panel.series)


def _traces(series_list: Iterable[Series], figure: Figure) -> Iterator[Spec]:
    for series in series_list:
        trace: Spec = {"name": series.name, "x": _round_values(series.x), "y": _round_values(series.y)}
        match figure.kind:
            case "map" if series.z is None:
                yield trace | _mark(series)
            case "map" | "heights":
                yield trace | _surface(series, figure)
            case "bars" | "spans":
                # Bars are horizontal: values are on the x axis.
                yield trace | {"x": trace["y"], "y": trace["x"]} | _bar(series)
            case _:
                yield trace | _curve(series, figure.kind)
        if series.level is not None:
            yield trace | _level_line(series.level, series)


def _curve(series: Series, kind: Kind) -> Spec:
    trace: Spec = {
        "type": "scatter",
        "mode": "markers" if series.has_categories else "lines+markers" if kind == "points" else "lines",
        "line": {
            "color": series.colour,
            "dash": DASHES[series.dash],
            "width": 2,
            "shape": "hv" if kind == "steps" else "linear",
        },
        "marker": {"color": series.colour, "size": 8},
    }
    if series.low is not None and series.high is not None:
        trace["error_y"] = {
            "array": _round_values(series.high - series.y),
            "arrayminus": _round_values(series.y - series.low),
            "color": series.colour,
            "thickness": 1,
        }
    return trace


def _bar(series: Series) -> Spec:
    bar: Spec = {"type": "bar", "orientation": "h", "marker": {"color": series.colour}}
    if series.low is not None:
        bar["base"] = _round_values(series.low)
        bar["hovertemplate"] = "%{y}: from %{base:,.3f} on, %{x:,.3f} long<extra></extra>"
    return bar


def _mark(series: Series) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "text": [series.name] * len(series.x),
        "textposition": "top center",
        "marker": {"color": series.colour, "size": 7},
    }


def _surface(series: Series, figure: Figure) -> Spec:
    assert series.z is not None
    if figure.kind == "heights":
        return {
            "type": "heatmap",
            "z": [_round_values(row) for row in series.z],
            "zmin": 0,
            "zmax": 1,
            "colorscale": "Viridis",
            "colorbar": {"thickness": 10, "title": {"text": series.name, "side": "right"}},
            "hovertemplate": "%{x:.3g}, %{y:.3g}: %{z:.3f}<extra></extra>",
        }
    return {
        "type": "heatmap",
        "z": [_round_values(100 * row) for row in series.z],
        "zmid": 0,
        "zmin": -MAP_LIMIT_PERCENT,
        "zmax": MAP_LIMIT_PERCENT,
        "colorscale": [[0, "#1a7f4b"], [0.5, "#f5f0dc"], [1, "#c0392b"]],
        "colorbar": {"title": {"text": "%"}, "thickness": 10},
        "hovertemplate": f"{_hover('x', figure.x)}, {_hover('y', figure.y)}: %{{z:+.0f}} %<extra></extra>",
    }


def _hover(side: str, axis: Axis) -> str:
    return f"%{{{side}{':.0%' if axis.is_share else ''}}} {axis.title}"


def _level_line(level: float, series: Series) -> Spec:
    assert series.z is not None
    return {
        "type": "contour",
        "name": f"{level:g}",
        "z": [_round_values(row) for row in series.z],
        "contours": {
            "start": level,
            "end": level,
            "size": 1,
            "coloring": "none",
            "showlabels": True,
            "labelfont": {"color": "black", "size": 13},
        },
        "line": {"color": "black", "width": 2},
        "showscale": False,
        "hoverinfo": "skip",
    }


def _round_values(values: Values | Sequence[str]) -> list[object]:
    if len(values) and isinstance(values[0], str):
        return list(values)
    return [float(f"{value:.{_SIGNIFICANT_DIGITS}g}") if np.isfinite(value) else None for value in values]


def _number_table(figure: Figure) -> ReportTable:
    series_by_panel = [(panel.title, series) for panel in figure.panels for series in panel.series]
    is_cdf = figure.y.is_share and figure.kind in ("lines", "steps") and figure.y.title == CDF.title
    if is_cdf:
        columns = ("", *_QUANTILES)
        rows: list[Row] = [
            (_row_name(panel, curve), *map(_format_cell, _quantiles(curve)))
            for panel, curve in series_by_panel
        ]
        return ReportTable(f"{figure.x.title}, quantiles", columns, rows)
    if figure.kind in ("map", "heights"):
        return _map_table(figure)
    if figure.kind == "spans":
        return _spans_table(figure)
    key_axis, value_axis = (figure.y, figure.x) if figure.kind == "bars" else (figure.x, figure.y)
    rows = [
        (
            f"{_row_name(panel, curve)}: {_format_value(x, key_axis)}",
            plain(_format_value(y, value_axis)),
            plain(_format_interval(curve, point, value_axis)),
        )
        for panel, curve in series_by_panel
        for point, (x, y) in _thin(enumerate(zip(curve.x, curve.y, strict=True)))
    ]
    return ReportTable(value_axis.title or figure.title, ("", value_axis.title, "95 % interval"), rows)


def _map_table(figure: Figure) -> ReportTable:
    surfaces = [
        (panel.title, surface) for panel in figure.panels for surface in panel.series if surface.z is not None
    ]
    format_share = _signed_share if figure.kind == "map" else "{:.0%}".format
    stride = math.ceil(len(surfaces[0][1].y) / _MAX_MAP_ROWS)
    rows: list[Row] = [
        (
            f"{title}, {_format_value(y, figure.y)} {figure.y.title}",
            *(plain(format_share(z)) for z in line[::stride]),
        )
        for title, surface in surfaces
        if surface.z is not None
        for y, line in list(zip(surface.y, surface.z, strict=True))[::stride]
    ]
    columns = ["", *(_format_value(x, figure.x) for x in list(surfaces[0][1].x)[::stride])]
    return ReportTable(f"{figure.title}; columns: {figure.x.title}", columns, rows)


def _signed_share(share: float) -> str:
    return f"{signed(100 * share)}%"


def _spans_table(figure: Figure) -> ReportTable:
    rows: list[Row] = [
        (
            f"{panel.title}, {x}",
            plain(_format_value(low, figure.x)),
            plain(_format_value(low + y, figure.x)),
        )
        for panel in figure.panels
        for spans in panel.series
        if spans.low is not None
        for x, y, low in _thin(zip(spans.x, spans.y, spans.low, strict=True))
    ]
    return ReportTable(f"{figure.title}; {figure.x.title}", ("", "from", "to"), rows)


def _row_name(panel: str, series: Series) -> str:
    return f"{panel}, {series.name}" if panel else series.name


def _thin(points: Iterable[T]) -> list[T]:
    all_points = list(points)
    stride = max(1, math.ceil(len(all_points) / _MAX_TABLE_ROWS))  # a step of 0 is an error
    return all_points[::stride]


def _quantiles(series: Series) -> Iterator[float]:
    x: Values = np.asarray(series.x, dtype=np.float64)
    yield from (float(x[np.searchsorted(series.y, q - _ROUNDING)]) for q in _QUANTILES.values())


def _format_cell(value: float) -> Sentence:
    return plain(f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")


def _format_interval(series: Series, point: int, axis: Axis) -> str:
    if series.low is None or series.high is None:
        return "–"
    return f"[{_format_value(series.low[point], axis)}, {_format_value(series.high[point], axis)}]"


def _format_value(value: float | str, axis: Axis) -> str:
    if isinstance(value, str):
        return value
    if not np.isfinite(value):
        return "–"
    return f"{value:.1%}" if axis.is_share else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
