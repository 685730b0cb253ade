"""Write the coverage to a file: a figure like Pan et al. Fig. 10, or its points as CSV."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from analysis.figures.figure_files import draw
from analysis.figures.update_coverage import coverage_figure
from controller.errors import HotSetError
from controller.hotset.coverage import Coverage
from foundation.logs.parts import atomic_path

SUFFIXES = (".csv", ".pdf", ".png", ".svg")


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
            draw(coverage_figure({"": coverage}, marks)).savefig(
                partial_file, format=path.suffix[1:], dpi=150
            )


def table(coverage: Coverage, marks: dict[int, str]) -> pl.DataFrame:
    top_k = sorted({*coverage.points(), *marks})
    return pl.DataFrame({"top_k": top_k, "share": [coverage.share(k) for k in top_k]})
