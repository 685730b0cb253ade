from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import Field
from rich.console import Console

from experiment.progress import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.settings import Strict
from foundation.text import signed
from hotline.cli.common import FILE, FOLDER, json_option, one_line_errors, print_json, print_table
from hotline.cli.fields import fills

if TYPE_CHECKING:
    from hotline_answers.prediction.compare import DifferencePrediction, LatencyPrediction, RunPrediction
    from hotline_answers.prediction.fit import Fit

_run_argument = click.argument("run", type=FOLDER)


class FitSettings(Strict):
    evaluations: int = Field(default=60, ge=1)
    """Upper limit for the number of simulations."""
    arms: tuple[str, ...] = ("baseline", "offload")
    """Arms to fit, separated by commas."""


@click.command("fit")
@_run_argument
@click.option("-o", "--output", type=FILE, help="TOML file to write.")
@fills(FitSettings, "settings", arms={"is_list": True, "metavar": "ARM,..."})
@json_option
def fit(run: Path, output: Path | None, settings: FitSettings, as_json: bool) -> None:
    """Fit the costs of hosts to a run.

    A simulation with these costs reproduces RUN's latencies, CPU time and capacity. The costs are printed
    as the table [hosts] of `hotline simulate`. Takes some minutes.
    """
    from analysis.disturbed_blocks import withheld_by
    from analysis.sentences.answers import costs_withheld
    from foundation.logs.parts import check_output, write_text
    from hotline_answers.hosts_file import hosts_text
    from hotline_answers.prediction.fit import fit as fit_costs

    with one_line_errors():
        if output is not None:
            check_output(output)
        with progress_bar("simulating") as progress:
            fit_result = run_interruptibly(
                lambda: fit_costs(run, settings.arms, progress, settings.evaluations)
            )
        text = hosts_text(fit_result.hosts)
        if output is not None:
            write_text(output, text)
    if (disturbed := withheld_by(fit_result.hosts.sources)) is not None:
        click.echo(f"hotline: nothing can be claimed from these costs: {costs_withheld(disturbed)}", err=True)
    if as_json:
        hosts = fit_result.hosts.model_dump(mode="json")
        print_json({"hosts": hosts, "aside": fit_result.unexplained, "cells": _metric_rows(fit_result)})
    elif output is None:
        click.echo(text, nl=False)
    else:
        _print_fit(fit_result)


@click.command("predict")
@_run_argument
@click.option(
    "--hosts",
    "hosts_file",
    type=FILE,
    help="TOML file with the table [hosts], as `hotline answer fit` writes it for another run.",
)
@click.option(
    "--from",
    "predictor",
    type=FOLDER,
    help="Compare with another real run instead: how well do runs predict each other?",
)
@json_option
def predict(run: Path, hosts_file: Path | None, predictor: Path | None, as_json: bool) -> None:
    """Simulate a real run, and compare both arm by arm.

    RUN is simulated at the rates that it was offered. A prediction holds if means are within 15 % of RUN's,
    p99 within 30 %, and differences have the same sign wherever RUN has a significant one. If more than a
    fifth of the blocks of RUN or of the costs were disturbed, nothing is said to hold.
    """
    if (hosts_file is None) == (predictor is None):
        raise click.UsageError("give either --hosts FILE or --from DIRECTORY, which RUN is compared with")
    with one_line_errors():
        if hosts_file is not None:
            prediction = _compare_with_simulation(run, hosts_file)
        else:
            assert predictor is not None
            prediction = _compare_with_run(run, predictor)
    if as_json:
        print_json(_as_json(prediction))
    else:
        _print(prediction)


def _compare_with_simulation(run: Path, hosts_file: Path) -> RunPrediction:
    from experiment.progress import Reporter, RunConsole
    from hotline_answers.prediction.compare import predict as simulate_run
    from hotline_simulator.config import load_hosts

    hosts = load_hosts(hosts_file)
    reporter = Reporter(RunConsole())
    try:
        return run_interruptibly(lambda: simulate_run(run, hosts, reporter))
    finally:
        reporter.stop()


def _compare_with_run(run: Path, other: Path) -> RunPrediction:
    from hotline_answers.prediction.compare import compare_runs

    return run_interruptibly(lambda: compare_runs(run, other))


def _metric_rows(fit_result: Fit) -> list[dict[str, Any]]:
    return [
        {"load": load, "arm": arm, "metric": metric, "measured": measured, "fitted": fitted}
        for (load, arm), metrics in fit_result.cells.items()
        for metric, (measured, fitted) in metrics.items()
    ] + [
        {"load": "", "arm": arm, "metric": "capacity", "measured": measured, "fitted": fitted}
        for arm, (measured, fitted) in fit_result.capacity.items()
    ]


def _print_fit(fit_result: Fit) -> None:
    from analysis.statistics import relative_change

    rows = [
        [
            each["load"],
            each["arm"],
            each["metric"],
            f"{each['measured']:,.0f}",
            f"{each['fitted']:,.0f}",
            _format_percent(relative_change(each["fitted"], each["measured"])),
        ]
        for each in _metric_rows(fit_result)
    ]
    print_table(
        "Measured, and simulated with the fitted costs: µs; capacity in steps/s",
        ["load", "arm", "metric", "measured", "fitted", "error"],
        rows,
    )


def _format_percent(value: float | None) -> str:
    return "–" if value is None else f"{signed(100 * value)} %"


def _print(prediction: RunPrediction) -> None:
    rows = [
        [
            each.load,
            each.arm,
            each.metric,
            f"{each.measured:,.0f}",
            f"{each.predicted:,.0f}",
            _format_percent(each.relative_error),
            _judge(each, prediction),
        ]
        for each in prediction.latencies
    ]
    columns = ["load", "arm", "metric", "measured", "predicted", "error", ""]
    print_table("Latency of operations, µs", columns, rows)
    differences = [
        [
            each.load,
            each.arm,
            each.metric,
            _format_percent(each.measured),
            _format_percent(each.predicted),
            "",
            _judge(each, prediction),
        ]
        for each in prediction.differences
    ]
    print_table("Significant differences from the baseline", columns, differences)
    Console(stderr=True).print(_describe_verdict(prediction))


def _judge(each: LatencyPrediction | DifferencePrediction, prediction: RunPrediction) -> str:
    if prediction.disturbed is not None:
        return "~"
    return "holds" if each.holds else "fails"


def _describe_verdict(prediction: RunPrediction) -> str:
    from analysis.sentences.answers import costs_withheld

    if prediction.disturbed is not None:
        return f"not judged: {costs_withheld(prediction.disturbed)}"
    mean_results = [each.holds for each in prediction.latencies if each.metric.endswith("mean")]
    p99_results = [each.holds for each in prediction.latencies if each.metric.endswith("p99")]
    sign_results = [each.holds for each in prediction.differences]
    return (
        f"{sum(mean_results)} of {len(mean_results)} means within 15 %, "
        f"{sum(p99_results)} of {len(p99_results)} p99 within 30 %, "
        f"{sum(sign_results)} of {len(sign_results)} signs"
    )


def _as_json(prediction: RunPrediction) -> dict[str, Any]:
    disturbed = prediction.disturbed

    def holds(each: LatencyPrediction | DifferencePrediction) -> bool | None:
        return each.holds if disturbed is None else None

    return {
        "latencies": [
            {**each._asdict(), "error": each.relative_error, "holds": holds(each)}
            for each in prediction.latencies
        ],
        "differences": [{**each._asdict(), "holds": holds(each)} for each in prediction.differences],
        "disturbed": None if disturbed is None else disturbed.model_dump(),
    }
