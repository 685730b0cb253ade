"""Real and simulated runs, and their reports."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from analysis.figures.all import Progress, no_progress
from analysis.figures.source import source_of_cluster
from analysis.record import RunRecord, read_record
from analysis.report import write_cluster_report, write_report
from analysis.summary import Summary, summarise
from analysis.wording import ReportTable
from experiment.config import config_of, load_config, load_config_as
from experiment.designs import hosts_of
from experiment.errors import RunFailed
from experiment.folder import create_run_folder, point_to_latest
from experiment.phases.accounting import check_accounting
from experiment.phases.workload import read_data
from experiment.progress import Reporter
from experiment.requirements import RunKind, check_design
from foundation.concurrency import run_interruptibly
from foundation.logs.cluster import open_cluster
from foundation.logs.merge import finish_merge
from foundation.logs.update_log import reading
from foundation.optional import require_numba


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

    # The name of a module, which is run as a process: `topologies` must not import the simulator.
    return main(settings, predictor="simulator.dedicated_switch")


def remove_killed_runs(settings: Sequence[str]) -> list[str]:
    """Remove what killed runs with these settings have left; return the names of what was removed."""
    from topologies.testbed_kinds import testbed_kind

    config = load_config(settings)
    return testbed_kind(config).remove_killed(config)


def simulate(config: Path | None = None, reporter: Reporter | None = None, **settings: object) -> Run:
    """Simulate a run: the same P4 program, the same agents, the same report, without root.

    `config` is a TOML file (packages/simulator/README.md), which `settings` override. Without a file the
    cluster is that of Pan et al. (2020): 80 workers, 20 parameter servers, 10 Gbit/s. The run's
    folder is made in `runs`, and removed after an error: `ConfigError`, `SimulationError` or `DataError`.
    """
    require_numba("a simulation")
    # Not above, since `run` needs neither the simulator nor what it compiles code with.
    from simulator.config import DDL, SimulationConfig
    from simulator.experiment import quiet_reporter
    from simulator.experiment import simulate as run_simulation

    reporter = reporter or quiet_reporter()
    if config is None:
        # `settings` may have another design, which determines the arms.
        simulation_config = config_of(SimulationConfig, {**DDL.model_dump(exclude={"arms"}), **settings})
    else:
        simulation_config = load_config_as(SimulationConfig, [f"CONFIG={config}"], settings)
    check_design(simulation_config.design, RunKind.SIMULATED, hosts_of(simulation_config))
    folder = create_run_folder(simulation_config.runs, "simulated")
    try:
        data = run_interruptibly(lambda: read_data(simulation_config, reporter))
        record = run_interruptibly(
            lambda: asyncio.run(run_simulation(simulation_config, data, folder, reporter))
        )
        with reporter.phase("report"):
            result = _write_report(folder, record, no_progress)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        reporter.stop()
    point_to_latest(simulation_config.runs)
    return result


def read(folder: Path) -> Run:
    """Read a finished run, without computing its report again."""
    record = read_record(folder)
    return Run(folder, record, summarise(folder, record), folder / "report.html")


def report(folder: Path, progress: Progress = no_progress) -> Run:
    """Compute a run's metrics and its report again. Raises `AnalysisError`."""
    record = read_record(folder)
    run_interruptibly(lambda: finish_merge(folder))
    return _write_report(folder, record, progress)


def _write_report(folder: Path, record: RunRecord, progress: Progress) -> Run:
    with reading(folder):
        summary = run_interruptibly(lambda: summarise(folder, record))
        page = run_interruptibly(lambda: write_report(folder, record, summary, progress))
    return Run(folder, record, summary, page)


def report_of_cluster(logs: Path, page: Path, progress: Progress = no_progress) -> ReportTable:
    """Write the report of a cluster's logs (docs/logs.md), and return its findings; raises `DataError`."""
    with TemporaryDirectory() as scratch:
        source = run_interruptibly(lambda: source_of_cluster(open_cluster(logs, Path(scratch))))
        return run_interruptibly(lambda: write_cluster_report(source, page, progress))
