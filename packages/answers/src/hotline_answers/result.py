from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.figures.figure_files import draw
from analysis.figures.model import Axis, Figure, Panel, Series, colour_of
from analysis.page.build import fragment
from analysis.wording import AnswerText, ReportTable, Row, plain
from experiment.progress import Reporter
from experiment.run_config import config_of
from foundation.concurrency import run_interruptibly
from foundation.protocol.memory import size_text
from hotline_answers.cluster_answer.ask import ClusterAnswer, answer_cluster
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.cluster_answer.reservations import with_reservations, withheld_costs
from hotline_answers.cluster_answer.sizes import Size
from hotline_simulator.experiment import quiet_reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_COLUMNS = (
    "hot keys",
    "served",
    "RPCs",
    "packets",
    "workers, µs",
    "servers, µs",
    "steps/s",
    "memory",
)


class Answer(ClusterAnswer):
    def plot(self) -> Drawing:
        """Draw the steps/s of the cluster against the size of the hot set."""
        drawing = draw(_make_figure(self))
        drawing.axes[0].set_ylim(bottom=0)
        return drawing

    def _repr_html_(self) -> str:
        cluster = self.cluster
        text = AnswerText(
            title=f"{cluster.workers:,} workers and {cluster.servers:,} servers",
            headline=" ".join([*self.bottleneck, *([self.rows] if self.rows else []), self.headline]),
            # A prediction has no lost updates, which make a run's answer doubtful.
            is_trusted=withheld_costs(cluster) is None,
            sentences=tuple(map(plain, self.sentences)),
        )
        return fragment(text, [computing_table(self), effects_table(self), table(self)])


def answer(reporter: Reporter | None = None, **cluster: object) -> Answer:
    """Predict the effect of a switch on a cluster: `answer(workers=80, servers=20, keys_per_step=3000)`.

    The settings are those of `hotline_answers.cluster_answer.cluster.Cluster`; with 100 hosts it takes some
    ten seconds. Raises `ConfigError`, `SimulationError` and `DataError`.
    """
    reporter = reporter or quiet_reporter()
    settings = config_of(Cluster, cluster)
    try:
        cluster_answer = run_interruptibly(lambda: with_reservations(answer_cluster(settings, reporter)))
    finally:
        reporter.stop()
    return Answer.model_construct(**dict(cluster_answer))


def table(cluster_answer: ClusterAnswer) -> ReportTable:
    return ReportTable(
        "By size of the hot set: lanes that the switch serves; a step's RPCs and packets to servers; its CPU "
        "and the steps/s, both at capacity; registers and table entries",
        _COLUMNS,
        [_make_row(size) for size in cluster_answer.sizes],
        cluster_answer.notes,
    )


def computing_table(cluster_answer: ClusterAnswer) -> ReportTable:
    effects = cluster_answer.computing
    rows: list[Row] = [
        ("steps/s without", *(plain(f"{each.baseline:,.0f}") for each in effects)),
        ("steps/s with", *(plain(f"{each.offload:,.0f}") for each in effects)),
        ("gain", *(plain(f"× {each.gain:.2f}") for each in effects)),
        ("servers busy without", *(plain(f"{100 * each.servers_busy:.0f} %") for each in effects)),
    ]
    return ReportTable(
        f"By computing time of a worker's step, between pull and push, with {cluster_answer.sides.top_k:,} "
        "hot keys",
        ("", *(f"{each.compute_ms:g} ms" for each in effects)),
        rows,
    )


def effects_table(cluster_answer: ClusterAnswer) -> ReportTable:
    top_k, gain = cluster_answer.sides.top_k, cluster_answer.sides.gain
    rows: list[Row] = []
    for each in cluster_answer.effects:
        cells = [f"× {effect.gain:.2f} with {effect.value}" for effect in each.effects]
        rows.append((each.input, *map(plain, (each.value, *cells, *[""] * (2 - len(cells))))))
    return ReportTable(
        f"What the gain of {top_k:,} hot keys, × {gain:.2f} steps/s, hangs on: the same with another value",
        ("input", "here", "gain", "gain"),
        rows,
    )


def _make_row(size: Size) -> Row:
    values = (
        size.rpcs_per_step,
        size.ps_packets_per_step,
        size.worker_cpu_us,
        size.ps_cpu_us,
        size.capacity,
    )
    memory = "–" if not size.top_k else size_text(size.register_bytes + size.entry_bytes)
    cells = [f"{100 * size.served:.0f} %", *(f"{value:,.0f}" for value in values), memory]
    return (f"{size.top_k:,}", *map(plain, cells))


def _make_figure(cluster_answer: ClusterAnswer) -> Figure:
    no_offload, *sizes = cluster_answer.sizes  # the first size is 0
    top_k = [size.top_k for size in sizes]

    def make_series(name: str, capacities: list[float], dash_index: int) -> Series:
        colour = colour_of("", dash_index)  # of no arm
        return Series(name, np.array(top_k, np.float64), np.array(capacities), colour, dash_index)

    series = [
        make_series("with the hot set", [size.capacity for size in sizes], dash_index=0),
        make_series("without offload", [no_offload.capacity] * len(sizes), dash_index=1),
    ]
    return Figure(
        "answer-capacity",
        "Capacity of the cluster by size of the hot set",
        Axis("hot keys in the switch", is_log=True),
        Axis("steps/s of all workers"),
        [Panel("", series)],
        kind="points",
    )
