"""Write the coverage to a file: a figure like Pan et al. Fig. 10, or its points as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from controller.errors import HotSetError
from controller.hotset.coverage import Coverage
from foundation.logs.parts import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".csv", ".pdf", ".png", ".svg")
_MARKERS = "osD"  # Matplotlib's circle, square and diamond


def check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise HotSetError(
            f"{path}: expected a suffix of {', '.join(SUFFIXES)}, got {path.suffix or 'none'!r}"
        )


def write(coverage: Coverage, marks: dict[int, str], path: Path) -> None:
    # `marks` maps the top-k of a marked point to the point's name in the legend.
    check_suffix(path)
    with atomic_path(path) as partial_file:
        if path.suffix == ".csv":
            table(coverage, marks).write_csv(partial_file)
        else:
            draw_figure(coverage, marks).savefig(partial_file, format=path.suffix[1:], dpi=150)


def table(coverage: Coverage, marks: dict[int, str]) -> pl.DataFrame:
    top_k = sorted({*coverage.points(), *marks})
    return pl.DataFrame({"top_k": top_k, "share": [coverage.share(k) for k in top_k]})


def draw_figure(coverage: Coverage, marks: dict[int, str]) -> Figure:
    # The import takes half a second, so only figures pay for it.
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axis = figure.subplots()
    points = table(coverage, marks)
    axis.semilogx(points["top_k"], 100 * points["share"], color="#3b7dd8")
    for (k, name), marker in zip(sorted(marks.items()), _MARKERS, strict=False):
        share = 100 * coverage.share(k)
        axis.plot(k, share, marker, color="#e07b1a", label=f"{name}: {k:,} keys, {share:.1f} %")
    axis.legend(loc="lower right", frameon=False)
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_xlabel("most updated keys (top-k)")
    axis.set_ylabel("share of all updates, %")
    axis.set_ylim(0, 100)
    axis.grid(alpha=0.25)
    return figure
