"""Pan et al. Fig. 10: the share of all updates that the most updated parameters take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.figures.figure_data import Source
from analysis.figures.model import Axis, Figure, Panel, Series, colour_of
from controller.hotset.coverage import Coverage, coverage

PAPER_TOP_K = 20_000
NAME = "fig-10"


def share_of_updates(sources: Sequence[Source]) -> Figure:
    counts_by_source = {source.name: source.counts() for source in sources}
    return coverage_figure(
        {name: coverage(counts) for name, counts in counts_by_source.items() if counts is not None}
    )


def coverage_figure(coverages: Mapping[str, Coverage], marks: Mapping[int, str] | None = None) -> Figure:
    """Return the figure of coverages by name; `marks` names values of k, for figures of one coverage."""
    series = [
        _curve(name, coverage_of_name, number)
        for number, (name, coverage_of_name) in enumerate(coverages.items())
    ]
    if marks:
        [coverage_of_marks] = coverages.values()
        series += [
            _mark(coverage_of_marks, k, name, number)
            for number, (k, name) in enumerate(sorted(marks.items()), start=1)
        ]
    return Figure(
        NAME,
        "Share of updates by the most updated parameters",
        Axis("most updated parameters (top-k)", is_log=True),
        Axis("share of all updates", is_share=True),
        [Panel("", series)],
        caption="Pan et al. Fig. 10: the top 20,000 take 50 % of the updates in R1 and 70 % in R2.",
        facts={(name,): each.share(PAPER_TOP_K) for name, each in coverages.items()},
    )


def _curve(name: str, coverage_of_name: Coverage, number: int) -> Series:
    points = coverage_of_name.points()
    share = np.array([coverage_of_name.share(k) for k in points])
    return Series(name, np.array(points, dtype=np.float64), share, colour_of(name, number))


def _mark(coverage_of_marks: Coverage, k: int, name: str, number: int) -> Series:
    """Return a vertical line from the axis to the curve."""
    share = coverage_of_marks.share(k)
    title = f"{name}: {k:,} keys, {share:.1%}"
    return Series(
        title, np.array([k, k], np.float64), np.array([0.0, share]), colour_of("", number), dash=number
    )
