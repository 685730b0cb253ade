"""A run from its settings to its report: what is told, and the exit code."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler

from analysis.errors import AnalysisError
from analysis.record import read_record
from analysis.report import print_summary, write_report
from analysis.summary import summarise
from experiment.config import FAULTS_LIMIT, Config, Faults, load_config
from experiment.errors import RunFailed, secondary
from experiment.folder import create_run_folder, give_to_user, point_to_latest, tidy
from experiment.phases.accounting import check_accounting
from experiment.phases.workload import read_data
from experiment.progress import Reporter, RunConsole
from foundation.errors import HotlineError
from foundation.protocol.addressing import switch_interfaces
from foundation.words import counted
from hosts.workload.trace import Trace
from topologies import preflight
from topologies.run_lock import hold_run_lock, remove
from topologies.signals import INTERRUPTED, STOP, Stage
from topologies.simulation import add_simulation, can_be_simulated

log = logging.getLogger(__name__)


def main(settings: Sequence[str], predictor: str | None = None) -> int:
    """Run an experiment with `NAME=value` settings (`experiment.config`).

    `predictor` is a module that adds the prediction for a dedicated switch to a run's record
    (`topologies.simulation`); None adds none.

    The exit code: 0, 1 after an error that was told, 130 when interrupted.
    """
    console = RunConsole()
    show_logs(console)
    reporter = Reporter(console)
    if console.is_terminal:
        STOP.tell = partial(console.print, markup=False, highlight=False)
    try:
        config = load_config(settings)
        preflight.check(config)
        # Before anything is set up: it may not be what it should be.
        data = read_data(config, reporter)
        with hold_run_lock(switch_interfaces(config.workers, config.servers)) as only:
            if only.found:
                left = counted(only.found.processes, "process", "processes")
                log.info("removed what a killed run had left: %s", left)
            preflight.check_in_the_way(config)
            run = create_run_folder(config.runs, config.target)
            only.name(run)
            if only.found.run is not None:
                tidy(only.found.run)
            return _run(config, data, run, reporter, predictor)
    except (HotlineError, OSError) as error:
        reporter.stop()
        print(f"hotline: {error}", file=sys.stderr)
        return 1


def show_logs(console: Console) -> None:
    """Show what is logged, beside the progress; one line of it is one line in a pipe, which has no width."""
    handler: logging.Handler = (
        RichHandler(console=console, show_path=False, show_time=False, rich_tracebacks=False)
        if console.is_terminal
        else logging.StreamHandler()
    )
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    # The command line's own, which tells warnings.
    for other in [each for each in root.handlers if type(each) is logging.StreamHandler]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # It tells of every connection that the switch speaks no gNMI.
    logging.getLogger("finsy").setLevel(logging.ERROR)


def _run(
    config: Config, data: Trace | None, run: Path, reporter: Reporter, predictor: str | None = None
) -> int:
    publish = partial(_publish, config, run, reporter, predictor)
    with STOP.stage(Stage(partial(_what_is_there, run), clear=partial(_clear, config, run))):
        try:
            asyncio.run(_interruptible(config, data, run, reporter, publish))
        except asyncio.CancelledError:
            _clear(config, run)
        except (HotlineError, OSError) as error:
            print(f"hotline: the run failed; {_what_is_there(run)}", file=sys.stderr)
            with secondary():
                publish()
            raise _with_faults(error, config) from error
        except Exception:
            # A defect, whose traceback follows: there is something to read nevertheless.
            _hand_over(config)
            raise
        # CLI=1 has published before.
        if not (STOP.requested or (run / "report.html").exists()):
            publish()
        if STOP.requested:
            reporter.stop()
            print(f"hotline: interrupted; {_what_is_there(run)}", file=sys.stderr)
            return INTERRUPTED
    return 0


async def _interruptible(
    config: Config, data: Trace | None, run: Path, reporter: Reporter, publish: Callable[[], None]
) -> None:
    # Not before the preflight: this imports Mininet.
    from topologies.experiment import experiment

    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(experiment(config, data, run, reporter, publish))

    def cancel() -> None:
        loop.call_soon_threadsafe(work.cancel)

    stage = Stage(
        partial(_what_is_there, run),
        cancel=cancel,
        clear=partial(_clear, config, run),
    )
    with STOP.stage(stage):
        await work


def _clear(config: Config, run: Path) -> None:
    """Remove what would outlive this process, after an interruption that may have left anything half-done."""
    remove(switch_interfaces(config.workers, config.servers))
    shutil.rmtree(run / "trace", ignore_errors=True)
    _hand_over(config)


def _what_is_there(run: Path) -> str:
    """What an interrupted or failed run has left, and what makes a report of it."""
    try:
        account = read_record(run).accounting
    except AnalysisError:
        account = None
    if (run / "report.html").exists():
        return f"the report is {run / 'report.html'}"
    if account is not None:
        return f"{run} has all logs, and `./hotline report {run}` makes the report"
    if (run / "parts").is_dir():
        return f"the logs so far are in {run}, in parts that `make clean` or the next run merges"
    return f"the logs so far are in {run}"


def _with_faults(error: Exception, config: Config) -> Exception:
    """The error, with the faults in force, which may be what is behind it."""
    if config.faults == Faults():
        return error
    return RunFailed(f"{error} ({config.faults} in force; {FAULTS_LIMIT})")


def _publish(config: Config, run: Path, reporter: Reporter, predictor: str | None) -> None:
    """Report as far as the run came; where it can be read it is the latest."""
    _hand_over(config)
    try:
        _report(run, reporter, predictor)
    finally:
        _hand_over(config)


def _hand_over(config: Config) -> None:
    point_to_latest(config.runs)
    give_to_user(config.runs)


def _report(run: Path, reporter: Reporter, predictor: str | None) -> None:
    """Report a run that came far enough; AccountingError when its updates do not add up."""
    record = read_record(run)
    account = record.accounting
    if account is not None and record.blocks:
        if predictor is not None and can_be_simulated(record):
            with reporter.phase("virtual time"):
                add_simulation(run, partial(_what_is_there, run), predictor)
            record = read_record(run)
        with reporter.phase("report"):
            summary = summarise(run, record)
            report = write_report(run, record, summary)
        reporter.stop()
        print_summary(summary)
        print(f"report: {report}")
    reporter.stop()
    if account is not None:
        check_accounting(account, run)
