"""The page of sweeps, and their figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.figures.files import write_figures
from analysis.page.build import Page, build
from analysis.page.plots import plot
from analysis.page.tables import Row, Table, plain
from logs.columns import BASELINE
from logs.parts import write_text
from simulator.sweeps.figures import figures_of
from simulator.sweeps.plan import Sweep
from simulator.sweeps.point import ArmResult, Done
from simulator.sweeps.spread import Results

_READING = (
    "The same P4 program and agents as in a real run, on a virtual clock: cables, cores and what agents take "
    "are given (docs/simulator.md).",
    "Capacity is what all workers do together, each of which begins a step when it has ended the one before.",
)


def write_page(swept: Sequence[Sweep], results: Results, folder: Path) -> Path:
    """Write report.html and the folder `figures`; the path of the report."""
    drawn = list(figures_of(swept, results))
    target = folder / "figures"
    target.mkdir(parents=True, exist_ok=True)
    write_figures(drawn, target)
    tables = [(sweep.title, [table(sweep, results)]) for sweep in swept]
    page = Page(
        title="Sweeps in virtual time",
        plots=[plot(figure) for figure in drawn],
        tables=tables,
        reading=_READING,
    )
    report = folder / "report.html"
    write_text(report, build(page))
    return report


def table(sweep: Sweep, results: Results) -> Table:
    """A row for each point: the arms against the baseline, and that nothing was lost."""
    rows: list[Row] = [_row(sweep, point.name, results[sweep.name, point.name]) for point in sweep.points]
    carried = [f"steps/s: {arm}" for arm in (BASELINE, "proxy", "hot", "both")]
    changes = [f"{what}: {arm}" for what in ("pull", "servers' CPU") for arm in ("proxy", "hot")]
    head = (sweep.along, *carried, *changes, "RPCs", "lanes")
    return Table(f"{sweep.title}: against {BASELINE}", head, rows)


def _row(sweep: Sweep, name: str, done: Done) -> Row:
    arms = done.result.arms
    base = arms[BASELINE]
    capacity, pulls, servers = (
        {arm: change(of, base, metric) for arm, of in arms.items()}
        for metric in ("capacity", "pull_mean", "ps_cpu_us_per_step")
    )
    return (
        name,
        plain(f"{base.capacity:,.0f}"),
        *(plain(capacity.get(arm, "–")) for arm in ("proxy", "hot", "both")),
        *(plain(each.get(arm, "–")) for each in (pulls, servers) for arm in ("proxy", "hot")),
        plain(f"{done.result.rpcs:,}"),
        plain(f"{done.result.sent:,} sent, {done.result.lost:,} lost"),
    )


def change(arm: ArmResult, base: ArmResult, metric: str) -> str:
    """What an arm changes, in %."""
    without, value = getattr(base, metric), getattr(arm, metric)
    return f"{100 * (value / without - 1):+.0f} %" if without and value is not None else "–"
