"""Runs in real processes, and reports of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from analysis.figures.all import Progress, no_progress
from analysis.figures.figure_data import source_of_cluster
from analysis.record import RunRecord, read_record
from analysis.report import write_cluster_report, write_report
from analysis.summary import Summary, summarise
from analysis.wording import ReportTable
from experiment.errors import RunFailed
from experiment.phases.check_updates import check_accounting
from experiment.run_config import load_config
from foundation.concurrency import run_interruptibly
from foundation.logs.cluster import open_cluster
from foundation.logs.merge import finish_merge
from foundation.logs.update_log import reading

_PREDICTOR = "dedicated-switch"


class Run(NamedTuple):
    folder: Path  # folder of the logs (docs/logs.md), `run.json`, `summary.json` and the report
    record: RunRecord  # settings of the run, and the accounting of its updates
    summary: Summary  # metrics by arm and load
    page: Path

    def check(self) -> None:
        """Raise `AccountingError` if updates were lost."""
        if self.record.accounting is not None:
            is_script = self.record.config.get("script") is not None
            check_accounting(self.record.accounting, self.folder, is_script)


def run(**settings: object) -> Run:
    """Run the experiment on this machine, as `make run-topo` does: `run(workers=4, top_k=2000)`.

    Needs root and Mininet, builds a dedicated network, and shows progress on stderr. Raises `RunFailed`
    after an error, which is on stderr.
    """
    assignments = [f"{name.upper()}={value}" for name, value in settings.items()]
    runs = load_config(assignments).runs
    if run_on_this_machine(assignments):
        raise RunFailed("the run failed or was interrupted; stderr has the reason")
    return read(runs / "latest")


def run_on_this_machine(settings: Sequence[str]) -> int:
    # This import loads Mininet, which a simulation does not need.
    from topologies.lifecycle import main

    return main(settings, predictor=_predictor())


def _predictor() -> str | None:
    """Return the module of a package that adds a prediction to a run's record (`topologies.simulation`)."""
    found = [each.module for each in entry_points(group="hotline.predictors") if each.name == _PREDICTOR]
    return found[0] if found else None


def remove_killed_runs(settings: Sequence[str]) -> list[str]:
    """Remove what killed runs with these settings have left; return the names of what was removed."""
    from topologies.testbed_kinds import testbed_kind

    config = load_config(settings)
    return testbed_kind(config).remove_killed(config)


def read(folder: Path) -> Run:
    """Read a finished run, without computing its report again."""
    record = read_record(folder)
    return Run(folder, record, summarise(folder, record), folder / "report.html")


def report(folder: Path, progress: Progress = no_progress) -> Run:
    """Compute a run's metrics and its report again. Raises `AnalysisError`."""
    record = read_record(folder)
    run_interruptibly(lambda: finish_merge(folder))
    return write_run_report(folder, record, progress)


def write_run_report(folder: Path, record: RunRecord, progress: Progress) -> Run:
    with reading(folder):
        summary = run_interruptibly(lambda: summarise(folder, record))
        page = run_interruptibly(lambda: write_report(folder, record, summary, progress))
    return Run(folder, record, summary, page)


def report_of_cluster(logs: Path, page: Path, progress: Progress = no_progress) -> ReportTable:
    """Write the report of a cluster's logs (docs/logs.md), and return its findings; raises `DataError`."""
    with TemporaryDirectory() as scratch:
        source = run_interruptibly(lambda: source_of_cluster(open_cluster(logs, Path(scratch))))
        return run_interruptibly(lambda: write_cluster_report(source, page, progress))
