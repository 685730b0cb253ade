"""`hotline simulate`: the experiment in virtual time, without a network and without root."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.common import json_option, one_line_errors
from common.concurrency import left_alone

if TYPE_CHECKING:
    from simulator.config import SimulationConfig

# What simulates takes two seconds to import, which the other commands need not wait for.


@click.command()
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--design", help="Of aggregation; left out: hotset, or what CONFIG says.")
@json_option
def simulate(config: Path | None, design: str | None, as_json: bool) -> None:
    """Do a run in virtual time: the same P4 program, the same agents, the same report.

    CONFIG is a TOML file as of `make run-topo`, which may have the tables [network] and [hosts], too. Without
    one it is [DDL]'s cluster: 80 workers and 20 parameter servers at 10 Gbit/s.
    """
    from experiment.config import config_of, load_config_as
    from simulator.config import DDL, SimulationConfig

    chosen = {} if design is None else {"design": design}
    with one_line_errors():
        if config is None:
            settings = config_of(SimulationConfig, {**DDL.model_dump(exclude={"arms"}), **chosen})
        else:
            given = [f"{name.upper()}={value}" for name, value in chosen.items()]
            settings = load_config_as(SimulationConfig, [f"CONFIG={config}", *given])
        _simulate(settings, as_json)


def _simulate(config: SimulationConfig, as_json: bool) -> None:
    from analysis.report import write_report
    from analysis.summary import summarise
    from analysis.table import print_summary
    from experiment.folder import create_run_folder, point_to_latest
    from experiment.phases.accounting import check_accounting
    from experiment.phases.workload import read_data
    from experiment.progress import Reporter, RunConsole
    from simulator.experiment import simulate as experiment

    reporter = Reporter(RunConsole())
    run = create_run_folder(config.runs, "simulated")
    try:
        data = left_alone(lambda: read_data(config, reporter))
        record = left_alone(lambda: asyncio.run(experiment(config, data, run, reporter)))
        with reporter.phase("report"):
            summary = left_alone(lambda: summarise(run, record))
            page = left_alone(lambda: write_report(run, record, summary))
    except BaseException:
        shutil.rmtree(run, ignore_errors=True)
        raise
    finally:
        reporter.stop()
    point_to_latest(config.runs)
    if as_json:
        click.echo((run / "summary.json").read_text(), nl=False)
    else:
        print_summary(summary)
        click.echo(f"report: {page}")
    assert record.accounting is not None
    check_accounting(record.accounting, run)
