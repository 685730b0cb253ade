"""A report that repeats the paper's evaluation with this project's runs, and its figures as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from analysis.figures.all import figures
from analysis.figures.figure_data import source_of_run
from analysis.figures.figure_files import write_figures
from analysis.figures.model import Fact, Figure
from analysis.page.build import Page, build, drawings
from analysis.page.plots import plot
from analysis.page.study import text_table, write_report
from analysis.report import (
    difference_tables,
    measured_answer,
    paper_table,
    provenance_rows,
)
from analysis.sentences.page import caveats, glossary, how_to_read
from analysis.wording import ReportTable
from foundation.designs.hotset import BASELINE, OFFLOAD
from foundation.logs.parts import write_text
from foundation.text import signed
from hotline_paper.connections.figure import ACTIVITIES, PANELS, delay_against_connections
from hotline_paper.connections.waiting import WAYS
from hotline_paper.costs import MeasuredRun, read_measured
from hotline_paper.map import SERVERS, Marker, OffloadMap, draw_map
from hotline_paper.plan import Stage
from hotline_paper.stages import result_path
from hotline_paper.sweeps import changes_by_workers, sweeps

Progress = Callable[[str], None]


def write_paper(stages: Sequence[Stage], folder: Path, markers: Sequence[Marker], progress: Progress) -> Path:
    runs = {stage.name: read_measured(result_path(stage, folder)) for stage in stages if stage.is_run}
    main_runs = [run for name, run in runs.items() if name in ("r1", "r2")]
    sources = [source_of_run(run.folder) for run in main_runs]
    progress("figures of the logs")
    log_figures = list(figures(sources))
    progress("map")
    offload_map = draw_map([run for name, run in runs.items() if name.startswith("map-")], SERVERS, markers)
    connections = next(stage for stage in stages if stage.name == "connections")
    fig_9 = delay_against_connections(result_path(connections, folder))
    all_figures = [*log_figures, fig_9, offload_map.figure, *sweeps(runs)]
    # The paper's figures come first.
    ordered_figures = sorted(
        all_figures, key=lambda figure: (not figure.name.startswith("fig-"), figure.name)
    )
    progress("files")
    return write_report(_page(main_runs, fig_9, runs), ordered_figures, folder)


def _page(
    main_runs: Sequence[MeasuredRun],
    fig_9: Figure,
    runs: dict[str, MeasuredRun],
) -> Page:
    first_run = main_runs[0]
    load_name = next(iter(first_run.summary.loads))
    return Page(
        title="What a programmable switch does for parameter servers, measured here",
        answers=[measured_answer(first_run.summary)],
        provenance=provenance_rows(first_run.record, first_run.summary),
        drawings=drawings(first_run.summary, first_run.record),
        paper=[
            paper_table(source_of_run(run.folder), list(figures([source_of_run(run.folder)])), run.summary)
            for run in main_runs
        ],
        tables=[("Fig. 9: what a connection costs", [slopes(fig_9)]), ("All runs", [_run_table(runs)])],
        reference=first_run.summary.reference.name,
        differences=list(difference_tables(first_run.summary, load_name)),
        nothing_worse="Which metrics are worse is in the table above.",
        facts=caveats(is_simulated=False),
        how_to_read=how_to_read(first_run.summary, is_simulated=False),
        glossary=glossary(first_run.summary.run_arms),
    )


def slopes(fig_9: Figure) -> ReportTable:
    columns = [(ACTIVITIES[active], arm.name) for active, arm in PANELS]
    rows = [(way, *(_slope(fig_9.facts, (way, *column)) for column in columns)) for way in WAYS]
    header = ("server", *(f"{arm}: {activity}" for activity, arm in columns))
    return text_table(
        "µs that 1,000 connections add to the delay of an empty RPC, with 95 % intervals", header, rows
    )


def _slope(facts: Mapping[Fact, float], key: Fact) -> str:
    if (*key, "slope") not in facts:
        return "–"
    # Adding 0.0 turns -0.0 into 0.0.
    value, low, high = (round(1000 * facts[(*key, bound)], 1) + 0.0 for bound in ("slope", "low", "high"))
    return f"{value:,.1f} [{low:,.1f}, {high:,.1f}]"


def _run_table(runs: dict[str, MeasuredRun]) -> ReportTable:
    metrics = {
        "pull": "pull_mean",
        "servers' CPU": "ps_cpu_us_per_step",
        "packets": "ps_packets_per_step",
        "workers' CPU": "worker_cpu_us_per_step",
    }
    rows = [
        (
            name,
            "" if run.load.offered_rate is None else f"{run.load.offered_rate:,.0f}",
            *(_difference(run, metric) for metric in metrics.values()),
            f"{run.summary.updates.sent:,} sent, {run.summary.updates.lost:,} lost",
        )
        for name, run in runs.items()
    ]
    return text_table(
        f"Arm {OFFLOAD.name} against {BASELINE.name}, % [95 %]", ("run", "steps/s", *metrics, "lanes"), rows
    )


def _difference(run: MeasuredRun, metric: str) -> str:
    change = run.difference(metric)
    assert change.ratio is not None
    if change.ratio_low is None or change.ratio_high is None:
        return f"{signed(100 * change.ratio)}"
    return (
        f"{signed(100 * change.ratio)} [{signed(100 * change.ratio_low)}, {signed(100 * change.ratio_high)}]"
    )


def write_map(
    runs: Mapping[str, MeasuredRun], folder: Path, markers: Sequence[Marker]
) -> tuple[OffloadMap, Path]:
    scale_runs = [run for name, run in runs.items() if name.startswith("scale-")]
    offload_map = draw_map([run for name, run in runs.items() if name.startswith("map-")], SERVERS, markers)
    map_figures = [offload_map.figure, *([changes_by_workers(scale_runs)] if scale_runs else [])]
    write_figures(map_figures, folder)
    page = folder / "map.html"
    plots = [plot(figure) for figure in map_figures]
    write_text(page, build(Page(title="When does offload pay?", plots=plots, how_to_read=())))
    return offload_map, page
