"""Write figures as PDF, PNG and CSV files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from analysis.figures.model import MAP_LIMIT_PERCENT, Axis, Figure, Panel, Series, Values
from foundation.logs.parts import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure as Drawing

SUFFIXES = ("pdf", "png", "csv")
_DPI = 150
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "osD^v*"
_PANELS_PER_ROW = 2
_PANEL_WIDTH, _LONE_PANEL_WIDTH, _PANEL_HEIGHT = 5.2, 6.4, 3.3  # inches
_LETTERS_PER_INCH, _HANDLE_LETTERS = 10.5, 5  # of the legend; a label's line sample is 5 letters wide
_MAX_LEGEND_COLUMNS = 6
_MAX_LOG_TICKS = 8
_BAR_HEIGHT = 0.8  # of a row, as of matplotlib's bars


def write_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    return [path for figure in figures for path in write_figure(figure, folder)]


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    from matplotlib import rc_context

    drawing, paths = draw(figure), [folder / f"{figure.name}.{suffix}" for suffix in SUFFIXES]
    # Settings of the user must not replace the layout that is made for all files.
    with rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
        _fix_layout(drawing)
        for path in paths:
            with atomic_path(path) as partial:
                if path.suffix == ".csv":
                    figure.table().write_csv(partial)
                else:
                    # Without a date, so that the same data give the same file.
                    metadata = {"CreationDate": None} if path.suffix == ".pdf" else {}
                    drawing.savefig(partial, format=path.suffix[1:], dpi=_DPI, metadata=metadata)
    return paths


def _fix_layout(drawing: Drawing) -> None:
    """Lay a figure out once: with a layout engine, even with "none", `savefig` draws everything twice."""
    engine = drawing.get_layout_engine()
    assert engine is not None  # `draw` has given it one
    drawing.set_dpi(_DPI)
    engine.execute(drawing)
    drawing.set_layout_engine(None)


def draw(figure: Figure) -> Drawing:
    # Without pyplot, whose backend belongs to the caller, for example a notebook.
    from matplotlib.figure import Figure as Drawing

    panels = [panel for panel in figure.panels if panel.series]
    columns = min(len(panels), _PANELS_PER_ROW)
    rows = math.ceil(len(panels) / columns)
    width = _PANEL_WIDTH * columns if columns > 1 else _LONE_PANEL_WIDTH
    drawing = Drawing(figsize=(width, _PANEL_HEIGHT * rows), layout="constrained")
    has_own_x = any(panel.x is not None for panel in panels)
    axes = drawing.subplots(
        rows, columns, squeeze=False, sharex=not has_own_x, sharey="row" if has_own_x else True
    )
    for number, (axis, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        _DRAW_BY_KIND[figure.kind](axis, panel.series)
        axis.set_title(panel.title, fontsize="medium")
        _label_axes(axis, panel, figure)
        if number % columns:  # not the first of its row
            axis.set_ylabel("")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    drawing.suptitle(figure.title)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    if labels:
        drawing.legend(
            handles, labels, loc="outside lower center", ncols=_legend_columns(labels, drawing), frameon=False
        )
    return drawing


def _legend_columns(labels: Sequence[str], drawing: Drawing) -> int:
    max_columns = int(_LETTERS_PER_INCH * drawing.get_figwidth() / (max(map(len, labels)) + _HANDLE_LETTERS))
    return max(1, min(len(labels), max_columns, _MAX_LEGEND_COLUMNS))


def _draw_lines(axis: Axes, series: Iterable[Series]) -> None:
    for curve in series:
        axis.plot(curve.x, curve.y, _DASHES[curve.dash], label=curve.name, color=curve.colour, linewidth=1.4)
        if curve.low is not None and curve.high is not None:
            axis.fill_between(curve.x, curve.low, curve.high, color=curve.colour, alpha=0.2, linewidth=0)


def _draw_steps(axis: Axes, series: Iterable[Series]) -> None:
    for curve in series:
        axis.step(curve.x, curve.y, _DASHES[curve.dash], where="post", label=curve.name, color=curve.colour)


def _draw_points(axis: Axes, series: Iterable[Series]) -> None:
    for number, curve in enumerate(series):
        marker = _MARKERS[number % len(_MARKERS)]
        line = "" if curve.has_categories else _DASHES[curve.dash]
        axis.plot(curve.x, curve.y, f"{marker}{line}", label=curve.name, color=curve.colour, markersize=5)
        if curve.low is not None and curve.high is not None:
            errors = np.array([curve.y - curve.low, curve.high - curve.y])
            axis.errorbar(curve.x, curve.y, yerr=errors, fmt="none", ecolor=curve.colour, capsize=2)


def _draw_bars(axis: Axes, series: Iterable[Series]) -> None:
    left: float | np.ndarray = 0.0
    for stack in series:
        axis.barh(list(stack.x), stack.y, left=left, label=stack.name, color=stack.colour)
        left = left + stack.y
    if not axis.yaxis_inverted():
        axis.invert_yaxis()


def _draw_map(axis: Axes, series: Iterable[Series]) -> None:
    for layer in series:
        if layer.z is not None:
            mesh = axis.pcolormesh(
                layer.x,
                layer.y,
                100 * layer.z,
                cmap="RdYlGn_r",
                vmin=-MAP_LIMIT_PERCENT,
                vmax=MAP_LIMIT_PERCENT,
                shading="nearest",
            )
            axis.figure.colorbar(mesh, ax=axis, label="change, %", extend="both")
            axis.contour(layer.x, layer.y, layer.z, levels=[0.0], colors="black", linewidths=1)
        else:
            axis.plot(layer.x, layer.y, "o", color=layer.colour, markersize=4)
            for x, y in zip(layer.x, layer.y, strict=True):
                axis.annotate(layer.name, (x, y), textcoords="offset points", xytext=(5, 3), fontsize=7)


def _draw_heights(axis: Axes, series: Iterable[Series]) -> None:
    for surface in series:
        assert surface.z is not None
        mesh = axis.pcolormesh(
            surface.x, surface.y, surface.z, cmap="viridis", vmin=0, vmax=1, shading="nearest"
        )
        axis.figure.colorbar(mesh, ax=axis, label=surface.name)
        if surface.level is not None and surface.z.min() < surface.level < surface.z.max():
            line = axis.contour(
                surface.x, surface.y, surface.z, levels=[surface.level], colors="black", linewidths=1.5
            )
            axis.clabel(line, fmt=f"{surface.level:g}", fontsize="small")


def _draw_spans(axis: Axes, series: Iterable[Series]) -> None:
    from matplotlib.collections import PolyCollection

    for spans in series:
        assert spans.low is not None
        axis.yaxis.update_units(list(spans.x))  # type: ignore[no-untyped-call]  # matplotlib gives it no types
        row: Values = np.asarray(axis.convert_yunits(list(spans.x)))  # type: ignore[no-untyped-call]  # as above
        left, right = spans.low, spans.low + spans.y
        bottom, top = row - _BAR_HEIGHT / 2, row + _BAR_HEIGHT / 2
        corners = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
        # One artist for all spans; `barh` would make one for each of hundreds.
        axis.add_collection(PolyCollection(list(corners.transpose(2, 0, 1)), facecolors=spans.colour))
    axis.autoscale_view()
    if not axis.yaxis_inverted():
        axis.invert_yaxis()


_DRAW_BY_KIND = {
    "map": _draw_map,
    "heights": _draw_heights,
    "spans": _draw_spans,
    "lines": _draw_lines,
    "steps": _draw_steps,
    "points": _draw_points,
    "bars": _draw_bars,
}


def _format_number(value: float, _position: object) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _values_on(side: Literal["x", "y"], panel: Panel, figure: Figure) -> Values:
    # Panels share their axes, except for x axes of their own.
    is_shared = side == "y" or panel.x is None
    panels = figure.panels if is_shared else [panel]
    return figure.values_on(side, (curve for each in panels for curve in each.series))


def _label_axes(axis: Axes, panel: Panel, figure: Figure) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

    sides: tuple[tuple[Literal["x", "y"], Axis, XAxis | YAxis], ...] = (
        ("x", panel.x or figure.x, axis.xaxis),
        ("y", figure.y, axis.yaxis),
    )
    for side, model, drawn_axis in sides:
        if model.is_log:
            getattr(axis, f"set_{side}scale")("log")
            drawn_axis.set_major_locator(LogLocator(numticks=_MAX_LOG_TICKS))
            drawn_axis.set_minor_locator(NullLocator())
            drawn_axis.set_major_formatter(FuncFormatter(_format_number))
        if model.is_share:
            drawn_axis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        limits = model.limits_of(_values_on(side, panel, figure), model.is_log)
        if limits is not None:
            getattr(axis, f"set_{side}lim")(limits)
        getattr(axis, f"set_{side}label")(model.title)
    if figure.y.is_share and figure.kind in ("lines", "steps"):
        axis.set_ylim(0, 1)
    axis.grid(alpha=0.25)
    if panel.x is None:
        axis.label_outer()
