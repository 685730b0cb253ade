"""Figure 10 has one drawing: of a run's report, and of `hotline hotset curve`, which marks values of k."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from analysis.figures.update_coverage import coverage_figure
from controller.hotset.coverage import coverage
from foundation.logs.counts import Counts
from hotline.results.curve import curve

UPDATES = (60, 15, 15, 1, 1, 1)


def points(values: object) -> list[float]:
    numbers: list[float] = np.asarray(values, np.float64).tolist()
    return numbers


def test_marks_are_lines_from_the_axis_to_the_curve(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    keys = range(1, len(UPDATES) + 1)
    pl.DataFrame({"job": [1] * len(UPDATES), "key": keys, "updates": UPDATES}).write_parquet(log)
    counted = coverage(Counts.of_logs([log], None))
    [[plain]] = [panel.series for panel in coverage_figure({"": counted}).panels]
    [[drawn, *marks]] = [panel.series for panel in coverage_figure({"": counted}, {2: "chosen"}).panels]
    assert points(drawn.x) == points(plain.x) and points(drawn.y) == points(plain.y)
    (mark,) = marks
    assert (points(mark.x), points(mark.y)) == ([2, 2], [0, 75 / 93])
    (axis,) = curve(log, top_k=2).plot().axes
    assert points(axis.lines[0].get_ydata()) == points(plain.y)
