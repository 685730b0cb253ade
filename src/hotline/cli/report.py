from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic_core import to_jsonable_python
from rich.text import Text

from experiment.progress import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.errors import HotlineError
from foundation.logs.check import check as check_logs
from foundation.logs.columns import load_title
from foundation.logs.update_log import reading
from foundation.text import capital, pluralize
from hotline.cli.common import FILE, PATH, json_option, one_line_errors, print_json, print_table

if TYPE_CHECKING:
    from analysis.compare import ComparedRun
    from analysis.metrics import Metric
    from analysis.statistics import Comparison
    from hotline.runs import Run

# Each command imports `analysis` itself: the import takes a second, for which other commands would wait.

_LATEST = Path("runs/latest")
_PAGE = Path("report.html")


@click.command()
@click.argument("run", required=False, type=PATH)
@click.option("--logs", "logs", type=PATH, metavar="DIR", help="A cluster's logs instead of a run.")
@click.option("-o", "--output", type=FILE, help="Page to write, with --logs.")
@json_option
def report(run: Path | None, logs: Path | None, output: Path | None, as_json: bool) -> None:
    """Make the report of a run, or of a cluster's logs.

    RUN is the run's folder, by default runs/latest. The numbers are printed, and written to summary.json and
    report.html there. --logs takes a folder with rpc.csv or rpc.parquet, in the format of docs/logs.md; it
    needs neither switch nor root.
    """
    if logs is not None and run is not None:
        raise click.UsageError(f"expected RUN or --logs, got RUN ({run}) and --logs ({logs})")
    if logs is None and output is not None:
        raise click.UsageError(f"--output ({output}) goes with --logs; a run's report is in its folder")
    with one_line_errors():
        if logs is not None:
            _make_cluster_report(logs, output or _PAGE, as_json)
        else:
            _make_run_report(run or _LATEST, as_json)


def _make_run_report(folder: Path, as_json: bool) -> None:
    from hotline.runs import report as compute_report

    if folder.exists() and not folder.is_dir():
        raise HotlineError(f"{folder}: expected the folder of a run, got a file")
    with progress_bar("figures") as progress:
        run = compute_report(folder, progress)
    print_run(run, as_json)


def print_run(run: Run, as_json: bool) -> None:
    from analysis.terminal import print_summary

    if as_json:
        click.echo((run.folder / "summary.json").read_text(), nl=False)
        return
    print_summary(run.summary)
    click.echo(f"report: {run.page}")


def _make_cluster_report(folder: Path, page: Path, as_json: bool) -> None:
    from foundation.logs.parts import check_output
    from hotline.runs import report_of_cluster

    if not folder.is_dir():
        raise HotlineError(f"--logs {folder}: expected a folder with rpc.csv or rpc.parquet, got no folder")
    check_output(page)
    with progress_bar("figures") as progress:
        findings = report_of_cluster(folder, page, progress)
    if as_json:
        rows = [dict(zip(findings.columns[1:], row[1:], strict=True)) for row in findings.texts()]
        print_json({"report": str(page), "findings": dict(zip(findings.titles, rows, strict=True))})
        return
    print_table(findings.title, findings.columns, findings.texts())
    click.echo(f"report: {page}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
@click.option("-o", "--output", required=True, type=PATH, metavar="DIR", help="Folder to write to.")
@json_option
def figures(runs: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Write the figures of one or more runs: PDF, PNG and CSV.

    Several runs are drawn into one figure. NAME.csv is the data behind NAME.pdf. docs/guide.md says what
    each figure shows; fig-04 and so on are numbered as in Pan et al. (2020).
    """
    from analysis.figures.all import figures as all_figures
    from analysis.figures.figure_data import source_of_run
    from analysis.figures.figure_files import write_figures

    with one_line_errors(), progress_bar("figures") as progress:
        sources = [source_of_run(run) for run in runs]
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HotlineError(f"--output {output}: cannot be made: {error.strerror}") from error
        with reading(", ".join(map(str, runs))):
            files = run_interruptibly(lambda: write_figures(all_figures(sources, progress), output))
    if as_json:
        print_json({"figures": [str(path) for path in files]})
    else:
        click.echo(f"{pluralize(len(files), 'file')} in {output}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN[:ARM] RUN[:ARM]...")
@json_option
def compare(runs: tuple[Path, ...], as_json: bool) -> None:
    """Compare runs, arm by arm, with 95 % intervals.

    Each arm is compared with the same arm of the first run. The offload effect in each run is printed, too.
    RUN:ARM RUN:ARM... compares single arms, such as those of two designs, with the first.
    """
    from analysis.compare import compare_runs

    if len(runs) < 2:
        raise click.UsageError(f"expected at least two runs to compare, got only {runs[0]}")
    selection = [_selected_arm(run) for run in runs]
    if any(arm for _, arm in selection):
        _compare_arms(selection, as_json)
        return
    with one_line_errors():
        compared_runs = run_interruptibly(lambda: compare_runs(runs))
    if as_json:
        print_json(to_jsonable_python({each.name: asdict(each) for each in compared_runs}))
        return
    for load in compared_runs[0].changes:
        _print_comparisons(load, compared_runs)
    _print_registers([each.name for each in compared_runs], [each.registers for each in compared_runs])


def _selected_arm(run: Path) -> tuple[Path, str]:
    """Split RUN:ARM; the arm of a RUN alone is ""."""
    folder, colon, arm = str(run).rpartition(":")
    return (Path(folder), arm) if colon and not run.exists() else (run, "")


def _compare_arms(selection: list[tuple[Path, str]], as_json: bool) -> None:
    from analysis.compare import compare_arms
    from analysis.metrics import metrics_of_table

    for run, arm in selection:
        if not arm:
            raise click.UsageError(f"{run}: expected an arm of it, RUN:ARM, as for the other runs")
    with one_line_errors():
        compared_arms = run_interruptibly(lambda: compare_arms(selection))
    if as_json:
        print_json(to_jsonable_python([asdict(each) for each in compared_arms]))
        return
    # A line each, because a table on a terminal cuts long names.
    columns = [f"{arm}\n{run.resolve().name}" for run, arm in selection]
    for load in compared_arms[0].changes:
        first, *others = [each.changes[load] for each in compared_arms]
        rows = [
            [
                metric.title,
                f"{first[metric.name].reference:,.1f}",
                *(_format_cell(metric, comparisons) for comparisons in others),
            ]
            for metric in metrics_of_table("compare")
            if metric.name in first
        ]
        title = f"{capital(load_title(load))}: {compared_arms[0].name}, and the others against it"
        print_table(title, ["", *columns], rows)
    _print_registers(columns, [each.registers for each in compared_arms])


def _print_registers(columns: list[str], registers: list[dict[str, int]]) -> None:
    """Print what the registers had that designs show, if any does."""
    titles = dict.fromkeys(title for each in registers for title in each)
    rows = [
        [title, *(f"{each[title]:,}" if title in each else "–" for each in registers)] for title in titles
    ]
    if rows:
        print_table("Registers at the end of the run, of all arms", ["", *columns], rows)


def _print_comparisons(load: str, compared_runs: list[ComparedRun]) -> None:
    from analysis.metrics import metrics_of_table
    from foundation.designs.arms import arms_in_answer, lead_arm, reference_of

    # The table has selected metrics; --json has all.
    metrics = metrics_of_table("compare")
    names = [each.name for each in compared_runs]
    offered_rates = ", ".join(
        f"{each.name} {each.offered_rate[load]:,.1f}" for each in compared_runs if load in each.offered_rate
    )
    load_name = capital(load_title(load))
    click.echo(load_name + (f", steps/s offered: {offered_rates}" if offered_rates else ""))
    base = reference_of(compared_runs[0].changes[load])
    lead = lead_arm(base.design)
    compared_arms = [base, *arms_in_answer(base.design)]  # those of a report's answer
    for arm in (each.name for each in compared_arms):
        changes = [each.changes[load].get(arm, {}) for each in compared_runs]
        rows = [
            [
                metric.title,
                f"{changes[0][metric.name].reference:,.1f}",
                *(_format_cell(metric, comparisons) for comparisons in changes[1:]),
            ]
            for metric in metrics
            if metric.name in changes[0]
        ]
        if rows:
            title = f"{load_name}, arm {arm}: {names[0]}, and the others against it"
            print_table(title, ["", *names], rows)
    if lead is None:
        return
    within_runs = [each.differences[load].get(lead.name, {}) for each in compared_runs]
    rows = [
        [metric.title, *(_format_cell(metric, comparisons) for comparisons in within_runs)]
        for metric in metrics
        if any(metric.name in comparisons for comparisons in within_runs)
    ]
    if rows:
        title = f"{load_name}: {lead.name} against {lead.reference}, in each run"
        print_table(title, ["", *names], rows)


def _format_cell(metric: Metric, comparisons: Mapping[str, Comparison]) -> Text:
    from analysis.terminal import styled
    from analysis.verdict import Claim
    from analysis.wording import difference

    comparison = comparisons.get(metric.name)
    if comparison is None or comparison.is_from_zero_to_zero:
        return Text("–")
    return styled((difference(comparison, Claim(metric, comparison).tone),))


@click.group()
def logs() -> None:
    """Check the logs of a run."""


@logs.command()
@click.argument("path", type=PATH)
@json_option
def check(path: Path, as_json: bool) -> None:
    """Check that the values in logs are valid for their columns.

    PATH is a run's folder, one of its logs or an update log. Prints the first invalid
    row and exits with 1 if there is one.
    """
    from analysis.record import read_record

    run = path if path.is_dir() else path.parent
    with one_line_errors():
        # The record of a run names the arms of its design, which need not be installed.
        if (run / "run.json").is_file():
            read_record(run)
        rows = run_interruptibly(lambda: check_logs(path))
    if as_json:
        print_json({"path": str(path), "rows": rows})
        return
    for name, number in rows.items():
        click.echo(f"{name}: {pluralize(number, 'row')}, all valid")
