from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from analysis.page.build import Page
from analysis.page.study import write_report
from analysis.wording import ReportTable, Row, plain
from foundation.designs.arms import arms_in_answer, measured_arms, reference_of
from foundation.designs.interface import Arm
from foundation.text import signed
from hotline_answers.sweeps.figures import figures_of
from hotline_answers.sweeps.plan import Sweep
from hotline_answers.sweeps.point import SweptArm, SweptRun
from hotline_simulator.study import Results

_HOW_TO_READ = (
    "The same P4 program and agents as in a real run, on a virtual clock, with cables, cores and CPU times "
    "of agents as configured (packages/simulator/README.md).",
    "Capacity is the step rate of all workers together when each begins a step as soon as it ends one.",
)


def write_page(sweeps: Sequence[Sweep], results: Results, folder: Path) -> Path:
    page = Page(
        title="Simulated sweeps",
        tables=[(sweep.title, [table(sweep, results)]) for sweep in sweeps],
        how_to_read=_HOW_TO_READ,
    )
    return write_report(page, list(figures_of(sweeps, results)), folder)


def table(sweep: Sweep, results: Results) -> ReportTable:
    points = {point.label: results.of(point) for point in sweep.points}
    base_arm = reference_of(name for run in points.values() for name in run.result.arms)
    other_arms = [
        arm for arm in measured_arms(base_arm.design) if arm.reference is not None and not arm.is_repetition
    ]
    rows: list[Row] = [_row_of_point(name, run, base_arm.name, other_arms) for name, run in points.items()]
    changes = [f"{label}: {arm.name}" for label, arm in _change_columns(other_arms)]
    head = (sweep.axis, f"steps/s: {base_arm.name}", *changes, "RPCs", "lanes")
    return ReportTable(f"{sweep.title}: against {base_arm.name}", head, rows)


_CHANGE_METRICS = {"steps/s": "capacity", "pull": "pull_mean", "servers' CPU": "ps_cpu_us_per_step"}


def _change_columns(arms: Sequence[Arm]) -> Iterator[tuple[str, Arm]]:
    # Capacity is shown for all arms, other metrics only for those that an answer mentions.
    for label, metric in _CHANGE_METRICS.items():
        yield from ((label, arm) for arm in arms if metric == "capacity" or arm in arms_in_answer(arm.design))


def _row_of_point(name: str, run: SweptRun, base_name: str, other_arms: Sequence[Arm]) -> Row:
    arms = run.result.arms
    return (
        name,
        plain(f"{arms[base_name].capacity:,.0f}"),
        *(
            plain(change(arms.get(arm.name), arms[base_name], _CHANGE_METRICS[label]))
            for label, arm in _change_columns(other_arms)
        ),
        plain(f"{run.result.rpcs:,}"),
        plain(f"{run.result.sent:,} sent, {run.result.lost:,} lost"),
    )


def change(arm: SweptArm | None, base: SweptArm, metric: str) -> str:
    base_value, value = getattr(base, metric), getattr(arm, metric, None)
    return f"{signed(100 * (value / base_value - 1))} %" if base_value and value is not None else "–"
