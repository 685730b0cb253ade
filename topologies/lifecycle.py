"""`python -m topologies.run [NAME=value ...]`: the main job, `make run-topo`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler

from analysis.errors import AnalysisError
from analysis.record import read_record
from analysis.report import write_report
from analysis.summary import summarise
from analysis.table import print_summary
from common.errors import HotlineError
from controller import ControllerError
from hosts.workload.trace import Trace
from protocol.addressing import switch_interfaces
from topologies import preflight
from topologies.config import VARIABLES, Config, load_config
from topologies.errors import AccountingError
from topologies.folder import create_run_folder, give_to_user, point_latest_to
from topologies.leftovers import only_run
from topologies.phases.workload import read_data
from topologies.progress import Reporter
from topologies.signals import cancel_when_signalled

log = logging.getLogger(__name__)

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an experiment; the exit code: 0, 1 after an error that was told, 130 when interrupted."""
    settings = _settings(arguments)
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False, show_time=False, rich_tracebacks=False)
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    # It tells of every connection that the switch speaks no gNMI.
    logging.getLogger("finsy").setLevel(logging.ERROR)
    reporter = Reporter(console)
    try:
        config = load_config(settings)
        preflight.check(config)
        # Before anything is set up: it may not be what it should be.
        data = read_data(config, reporter)
        with only_run(switch_interfaces(config.workers, config.servers)) as found:
            if found:
                log.info("removed what a killed run had left: %d processes", found.processes)
            preflight.check_in_the_way(config)
            return _run(config, data, reporter)
    except KeyboardInterrupt:
        print("hotline: interrupted; nothing was run", file=sys.stderr)
        return INTERRUPTED
    except (HotlineError, ControllerError, AnalysisError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        return 1


def _settings(arguments: Sequence[str] | None) -> list[str]:
    parser = argparse.ArgumentParser(
        prog="python -m topologies.run", description="Run the experiment; `make run-topo` does it as root."
    )
    names = ", ".join((*VARIABLES, "CONFIG"))
    parser.add_argument("settings", nargs="*", metavar="NAME=value", help=f"NAME is one of {names}")
    settings: list[str] = parser.parse_args(arguments).settings
    return settings


def _run(config: Config, data: Trace | None, reporter: Reporter) -> int:
    run = create_run_folder(config.runs, config.target)
    publish = partial(_publish, config, run, reporter)
    try:
        asyncio.run(_interruptible(config, data, run, reporter, publish))
    except asyncio.CancelledError:
        print(f"hotline: interrupted; the logs so far are in {run}", file=sys.stderr)
        return INTERRUPTED
    except (HotlineError, ControllerError):
        print(f"hotline: the run failed; the logs so far are in {run}", file=sys.stderr)
        raise
    finally:
        # CLI=1 has published before.
        if not (run / "report.html").exists():
            publish()
    return 0


async def _interruptible(
    config: Config, data: Trace | None, run: Path, reporter: Reporter, publish: Callable[[], None]
) -> None:
    # Not before the preflight: this imports Mininet.
    from topologies.experiment import experiment

    work = asyncio.ensure_future(experiment(config, data, run, reporter, publish))
    cancel_when_signalled(work)
    await work


def _publish(config: Config, run: Path, reporter: Reporter) -> None:
    """Report as far as the run came, and make it the latest."""
    try:
        _report(run, reporter)
    finally:
        point_latest_to(run)
        give_to_user(config.runs)


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
