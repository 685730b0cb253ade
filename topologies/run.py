"""`python -m topologies.run [NAME=value ...]`: the main job, `make run-topo`."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler

from analysis.errors import AnalysisError
from analysis.record import read_record
from analysis.report import write_report
from analysis.summary import summarise
from analysis.table import print_summary
from controller import ControllerError
from hosts.errors import HostsError
from topologies import preflight
from topologies.addressing import switch_interfaces
from topologies.config import Config, load_config
from topologies.errors import AccountingError, TopologyError
from topologies.folder import create_run_folder, give_to_user, point_latest_to
from topologies.leftovers import only_run
from topologies.progress import Reporter

log = logging.getLogger(__name__)

INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Run an experiment; the exit code: 0, 1 after an error that was told, 130 when interrupted."""
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False, show_time=False, rich_tracebacks=False)
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    # It tells of every connection that the switch speaks no gNMI.
    logging.getLogger("finsy").setLevel(logging.ERROR)
    try:
        config = load_config(arguments)
        preflight.check(config)
        with only_run(switch_interfaces(config.workers, config.servers)) as found:
            if found:
                log.info("removed what a killed run had left: %d processes", found.processes)
            preflight.check_in_the_way(config)
            return _run(config, console)
    except (TopologyError, ControllerError, HostsError, AnalysisError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        return 1


def _run(config: Config, console: Console) -> int:
    run = create_run_folder(config.runs, config.target)
    reporter = Reporter(console)
    try:
        asyncio.run(_interruptible(config, run, reporter))
    except asyncio.CancelledError:
        print(f"hotline: interrupted; the logs so far are in {run}", file=sys.stderr)
        return INTERRUPTED
    except (TopologyError, ControllerError, HostsError):
        print(f"hotline: the run failed; the logs so far are in {run}", file=sys.stderr)
        raise
    finally:
        _report(run, reporter)
        point_latest_to(run)
        give_to_user(config.runs)
    return 0


async def _interruptible(config: Config, run: Path, reporter: Reporter) -> None:
    """The experiment, cancelled by the first signal; those that follow do not disturb the clearing up."""
    # Not before the preflight: this imports Mininet.
    from topologies.experiment import experiment

    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(experiment(config, run, reporter))
    signalled = asyncio.Event()

    def stop() -> None:
        if not signalled.is_set():
            signalled.set()
            work.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    await work


def _report(run: Path, reporter: Reporter) -> None:
    """Report a run that came far enough; AccountingError when its updates do not add up."""
    record = read_record(run)
    account = record.accounting
    if account is not None and record.blocks:
        with reporter.phase("report"):
            summary = summarise(run, record)
            (run / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n")
            report = write_report(run, record, summary)
        reporter.stop()
        print_summary(summary)
        print(f"report: {report}")
    reporter.stop()
    if account is not None and account.lost:
        raise AccountingError(
            f"{account.lost} updates were lost, at {account.mismatched_keys} keys; see {run}"
        )
    if account is not None and account.overflows:
        raise AccountingError(
            f"{account.overflows} additions at the switch overflowed: set a smaller scale in CONFIG"
        )


if __name__ == "__main__":
    sys.exit(main())
