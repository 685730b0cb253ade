"""Pan et al. Fig. 10: the share of all updates that the most updated parameters take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.figures.model import Axis, Figure, Panel, Series, colour_of
from analysis.figures.source import Source
from controller.hotset.coverage import coverage

PAPER_TOP_K = 20_000


def share_of_updates(sources: Sequence[Source]) -> Figure:
    counts_by_source = {source.name: source.counts() for source in sources}
    coverage_by_source = {
        name: coverage(counts) for name, counts in counts_by_source.items() if counts is not None
    }
    series = []
    for number, (name, coverage_of_source) in enumerate(coverage_by_source.items()):
        points = coverage_of_source.points()
        share = np.array([coverage_of_source.share(k) for k in points])
        series.append(Series(name, np.array(points, dtype=np.float64), share, colour_of(name, number)))
    return Figure(
        "fig-10",
        "Share of updates by the most updated parameters",
        Axis("most updated parameters (top-k)", is_log=True),
        Axis("share of all updates", is_share=True),
        [Panel("", series)],
        caption="Pan et al. Fig. 10: the top 20,000 take 50 % of the updates in R1 and 70 % in R2.",
        facts={
            (name,): coverage_of_source.share(PAPER_TOP_K)
            for name, coverage_of_source in coverage_by_source.items()
        },
    )
