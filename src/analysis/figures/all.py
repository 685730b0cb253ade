"""All figures that can be drawn from logs, in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from analysis.figures.connections import concurrency, intervals
from analysis.figures.correlation import correlation_figure
from analysis.figures.figure_data import Source
from analysis.figures.latency import breakdown, completion, latencies, latencies_by_class, response_sizes
from analysis.figures.learning_curves import reported_losses
from analysis.figures.model import Figure
from analysis.figures.update_coverage import share_of_updates

_FIGURES: Sequence[Callable[[Sequence[Source]], Figure]] = (
    reported_losses,
    completion,
    latencies,
    latencies_by_class,
    breakdown,
    response_sizes,
    intervals,
    concurrency,
    share_of_updates,
    correlation_figure,
)


Progress = Callable[[int, int], None]  # number of figures done, and of all figures


def no_progress(done: int, total: int) -> None:
    pass


def figures(sources: Sequence[Source], progress: Progress = no_progress) -> Iterator[Figure]:
    for done, draw in enumerate(_FIGURES):
        progress(done, len(_FIGURES))
        figure = draw(sources)
        if not figure.is_empty:
            yield figure
    progress(len(_FIGURES), len(_FIGURES))
