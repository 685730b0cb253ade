from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler

from analysis.record import AnalysisError, read_record
from analysis.report import write_report
from analysis.summary import summarise
from analysis.terminal import print_result
from experiment.errors import RunFailed, log_cleanup_errors
from experiment.folder import chown_to_sudo_user, create_run_folder, point_to_latest
from experiment.phases.check_updates import check_accounting
from experiment.phases.workload import read_data
from experiment.progress import Reporter, RunConsole
from experiment.run_config import FAULT_RATES_ADVICE, Config, Faults, load_config
from foundation.errors import FULL_DISK, HotlineError
from hosts.unreplayed import preserve_agent_files
from hosts.workload.trace import Trace
from topologies.disk import is_full
from topologies.signals import INTERRUPTED, STOP, SignalActions
from topologies.simulation import add_simulation, can_be_simulated
from topologies.testbed import TestbedKind
from topologies.testbed_kinds import testbed_kind

log = logging.getLogger(__name__)


def main(settings: Sequence[str], predictor: str | None = None) -> int:
    """Run an experiment with `NAME=value` settings; return 0, 1 after an error, or 130 if interrupted.

    `predictor` is a module that adds a dedicated switch's prediction to the record, or None.
    """
    console = RunConsole()
    configure_logging(console)
    reporter = Reporter(console)
    if console.is_terminal:
        STOP.show = partial(console.print, markup=False, highlight=False)
    try:
        config = load_config(settings)
        kind = testbed_kind(config)
        kind.check(config)
        # Invalid data must fail before anything is set up.
        data = read_data(config, reporter)
        with kind.reserve(config) as reservation:
            run = create_run_folder(config.runs, config.target)
            reservation.set_folder(run)
            return _run_and_report(config, kind, data, run, reporter, predictor)
    except (HotlineError, OSError) as error:
        reporter.stop()
        print(f"hotline: {error}", file=sys.stderr)
        return 1


def configure_logging(console: Console) -> None:
    handler: logging.Handler = (
        RichHandler(console=console, show_path=False, show_time=False, rich_tracebacks=False)
        if console.is_terminal
        else logging.StreamHandler()
    )
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    # Remove the command line's handler, which shows warnings only.
    for old_handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:
        root.removeHandler(old_handler)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # finsy warns at every connection that the switch has no gNMI.
    logging.getLogger("finsy").setLevel(logging.ERROR)


def _run_and_report(
    config: Config,
    kind: TestbedKind,
    data: Trace | None,
    run: Path,
    reporter: Reporter,
    predictor: str | None = None,
) -> int:
    publish = partial(_publish, config, run, reporter, predictor)
    clean_up = partial(_clean_up, config, kind, run)
    actions = SignalActions(partial(_describe_results, run), clean_up=clean_up)
    with STOP.on_signal(actions):
        try:
            asyncio.run(_run_until_signal(config, kind, data, run, reporter, publish, actions))
        except asyncio.CancelledError:
            clean_up()
        except (HotlineError, OSError) as error:
            print(f"hotline: the run failed; {_describe_results(run)}", file=sys.stderr)
            with log_cleanup_errors():
                publish()
            raise _add_hints(error, config) from error
        except Exception:
            # This is a defect: its traceback follows, but the user still gets a readable run folder.
            _publish_folder(config)
            raise
        try:
            # With CLI=1 the report exists already.
            if not (STOP.is_requested or (run / "report.html").exists()):
                publish()
        finally:
            shutil.rmtree(run / "trace", ignore_errors=True)
        if STOP.is_requested:
            reporter.stop()
            print(f"hotline: interrupted; {_describe_results(run)}", file=sys.stderr)
            return INTERRUPTED
    return 0


async def _run_until_signal(
    config: Config, kind: TestbedKind, data: Trace | None, run: Path, reporter: Reporter,
    publish: Callable[[], None], actions: SignalActions,
) -> None:  # fmt: skip
    # This import takes a second.
    from topologies.experiment import run_experiment

    loop = asyncio.get_running_loop()
    experiment_task = asyncio.ensure_future(run_experiment(config, kind, data, run, reporter, publish))

    def cancel() -> None:
        loop.call_soon_threadsafe(experiment_task.cancel)

    with STOP.on_signal(replace(actions, cancel=cancel)):
        await experiment_task


def _clean_up(config: Config, kind: TestbedKind, run: Path) -> None:
    kind.remove_remains(config)
    with log_cleanup_errors():
        preserve_agent_files(run)
        shutil.rmtree(run / "trace", ignore_errors=True)
    _publish_folder(config)


def _describe_results(run: Path) -> str:
    try:
        accounting = read_record(run).accounting
    except AnalysisError:
        accounting = None
    if (run / "report.html").exists():
        return f"the report is {run / 'report.html'}"
    if accounting is not None:
        return f"{run} has all logs, and `./hotline report {run}` makes the report"
    if (run / "parts").is_dir():
        return f"the logs so far are in {run}, in parts that `make clean` or the next run merges"
    return f"the logs so far are in {run}"


def _add_hints(error: Exception, config: Config) -> Exception:
    message = str(error)
    if FULL_DISK in message or is_full(config.runs):
        size_mb = shutil.disk_usage(config.runs).total >> 20
        message += f": the disk of {config.runs} ({size_mb:,} MB) is full"
        message += "; make room, or set `runs` to a folder elsewhere"
    if config.faults != Faults():
        message += f" ({config.faults} in force; {FAULT_RATES_ADVICE})"
    return error if message == str(error) else RunFailed(message)


def _publish(config: Config, run: Path, reporter: Reporter, predictor: str | None) -> None:
    _publish_folder(config)
    try:
        _write_report(run, reporter, predictor)
    finally:
        _publish_folder(config)


def _publish_folder(config: Config) -> None:
    point_to_latest(config.runs)
    chown_to_sudo_user(config.runs)


def _write_report(run: Path, reporter: Reporter, predictor: str | None) -> None:
    record = read_record(run)
    accounting = record.accounting
    if accounting is not None and record.blocks:
        if predictor is not None and can_be_simulated(record):
            with reporter.phase("simulation"):
                add_simulation(run, partial(_describe_results, run), predictor)
            record = read_record(run)
        with reporter.phase("report"):
            summary = summarise(run, record)
            report = write_report(run, record, summary)
        reporter.stop()
        print_result(record, summary, report)
    reporter.stop()
    if accounting is not None:
        check_accounting(accounting, run, is_script=record.config.get("script") is not None)
