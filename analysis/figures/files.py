from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.figures.model import Figure, Panel, Series
from foundation.logs.parts import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

SUFFIXES = ("pdf", "png", "csv")
_DPI = 150
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "osD^v*"
_PANELS_PER_ROW = 2
_LETTERS_PER_INCH, _HANDLE_LETTERS = 10.5, 5


def write_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    return [path for figure in figures for path in write_figure(figure, folder)]


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    drawing, paths = draw(figure), [folder / f"{figure.name}.{suffix}" for suffix in SUFFIXES]
    for path in paths:
        with atomic_path(path) as partial:
            if path.suffix == ".csv":
                figure.table().write_csv(partial)
            else:
                # Without a date, so that the same data give the same file.
                metadata = {"CreationDate": None} if path.suffix == ".pdf" else {}
                drawing.savefig(partial, format=path.suffix[1:], dpi=_DPI, metadata=metadata)
    return paths


def draw(figure: Figure) -> Drawing:
    # Without pyplot, whose backend belongs to the caller, for example a notebook.
    from matplotlib.figure import Figure as Drawing

    panels = [panel for panel in figure.panels if panel.series]
    columns = min(len(panels), _PANELS_PER_ROW)
    rows = -(-len(panels) // columns)
    width = 5.2 * columns if columns > 1 else 6.4
    drawing = Drawing(figsize=(width, 3.3 * rows), layout="constrained")
    has_own_x = any(panel.x is not None for panel in panels)
    axes = drawing.subplots(
        rows, columns, squeeze=False, sharex=not has_own_x, sharey="row" if has_own_x else True
    )
    for number, (axis, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        _KINDS[figure.kind](axis, panel.series)
        axis.set_title(panel.title, fontsize="medium")
        _label(axis, panel, figure)
        if number % columns:
            axis.set_ylabel("")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    drawing.suptitle(figure.title)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    if labels:
        drawing.legend(
            handles, labels, loc="outside lower center", ncols=_columns(labels, drawing), frameon=False
        )
    return drawing


def _columns(labels: Sequence[str], drawing: Drawing) -> int:
    max_columns = int(_LETTERS_PER_INCH * drawing.get_figwidth() / (max(map(len, labels)) + _HANDLE_LETTERS))
    return max(1, min(len(labels), max_columns, 6))


def _lines(axis: Axes, series: Iterable[Series]) -> None:
    for each in series:
        axis.plot(each.x, each.y, _DASHES[each.dash], label=each.name, color=each.colour, linewidth=1.4)
        if each.low is not None and each.high is not None:
            axis.fill_between(each.x, each.low, each.high, color=each.colour, alpha=0.2, linewidth=0)


def _steps(axis: Axes, series: Iterable[Series]) -> None:
    for each in series:
        axis.step(each.x, each.y, _DASHES[each.dash], where="post", label=each.name, color=each.colour)


def _points(axis: Axes, series: Iterable[Series]) -> None:
    for number, each in enumerate(series):
        marker = _MARKERS[number % len(_MARKERS)]
        line = "" if len(each.x) and isinstance(each.x[0], str) else _DASHES[each.dash]
        axis.plot(each.x, each.y, f"{marker}{line}", label=each.name, color=each.colour, markersize=5)
        if each.low is not None and each.high is not None:
            errors = np.array([each.y - each.low, each.high - each.y])
            axis.errorbar(each.x, each.y, yerr=errors, fmt="none", ecolor=each.colour, capsize=2)


def _bars(axis: Axes, series: Iterable[Series]) -> None:
    left: float | np.ndarray = 0.0
    for each in series:
        axis.barh(list(each.x), each.y, left=left, label=each.name, color=each.colour)
        left = left + each.y
    if not axis.yaxis_inverted():
        axis.invert_yaxis()


def _map(axis: Axes, series: Iterable[Series]) -> None:
    for each in series:
        if each.z is not None:
            mesh = axis.pcolormesh(
                each.x,
                each.y,
                100 * each.z,
                cmap="RdYlGn_r",
                vmin=-_MAP_LIMIT_PERCENT,
                vmax=_MAP_LIMIT_PERCENT,
                shading="nearest",
            )
            axis.figure.colorbar(mesh, ax=axis, label="change, %", extend="both")
            axis.contour(each.x, each.y, each.z, levels=[0.0], colors="black", linewidths=1)
        else:
            axis.plot(each.x, each.y, "o", color=each.colour, markersize=4)
            for x, y in zip(each.x, each.y, strict=True):
                axis.annotate(each.name, (x, y), textcoords="offset points", xytext=(5, 3), fontsize=7)


def _heights(axis: Axes, series: Iterable[Series]) -> None:
    for each in series:
        assert each.z is not None
        mesh = axis.pcolormesh(each.x, each.y, each.z, cmap="viridis", vmin=0, vmax=1, shading="nearest")
        axis.figure.colorbar(mesh, ax=axis, label=each.name)
        if each.level is not None and each.z.min() < each.level < each.z.max():
            line = axis.contour(each.x, each.y, each.z, levels=[each.level], colors="black", linewidths=1.5)
            axis.clabel(line, fmt=f"{each.level:g}", fontsize="small")


def _spans(axis: Axes, series: Iterable[Series]) -> None:
    for each in series:
        axis.barh(list(each.x), each.y, left=each.low, color=each.colour)
    if not axis.yaxis_inverted():
        axis.invert_yaxis()


_MAP_LIMIT_PERCENT = 60.0
_KINDS = {
    "map": _map,
    "heights": _heights,
    "spans": _spans,
    "lines": _lines,
    "steps": _steps,
    "points": _points,
    "bars": _bars,
}


def _format_number(value: float, _: object) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _label(axis: Axes, panel: Panel, figure: Figure) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

    for side, model, drawn_axis in (
        ("x", panel.x or figure.x, axis.xaxis),
        ("y", figure.y, axis.yaxis),
    ):
        if model.is_log:
            getattr(axis, f"set_{side}scale")("log")
            drawn_axis.set_major_locator(LogLocator(numticks=8))
            drawn_axis.set_minor_locator(NullLocator())
            drawn_axis.set_major_formatter(FuncFormatter(_format_number))
        if model.is_share:
            drawn_axis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        getattr(axis, f"set_{side}label")(model.title)
    if figure.y.is_share and figure.kind in ("lines", "steps"):
        axis.set_ylim(0, 1)
    axis.grid(alpha=0.25)
    if panel.x is None:
        axis.label_outer()
