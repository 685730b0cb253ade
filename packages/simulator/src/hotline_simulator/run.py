"""A simulated run, as `hotline.simulate`, with the report of a real one."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from analysis.figures.all import no_progress
from experiment.design_parts import hosts_of
from experiment.folder import create_run_folder, point_to_latest
from experiment.phases.workload import read_data
from experiment.progress import Reporter
from experiment.requirements import RunKind, check_design
from experiment.run_config import config_of, load_config_as
from foundation.concurrency import run_interruptibly
from hotline.runs import Run, write_run_report
from hotline_simulator.config import DDL, SimulationConfig
from hotline_simulator.experiment import quiet_reporter
from hotline_simulator.experiment import simulate as run_simulation


def simulate(config: Path | None = None, reporter: Reporter | None = None, **settings: object) -> Run:
    """Simulate a run: the same P4 program, the same agents, the same report, without root.

    `config` is a TOML file (packages/simulator/README.md), which `settings` override. Without a file the
    cluster is that of Pan et al. (2020): 80 workers, 20 parameter servers, 10 Gbit/s. The run's
    folder is made in `runs`, and removed after an error: `ConfigError`, `SimulationError` or `DataError`.
    """
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
            result = write_run_report(folder, record, no_progress)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        reporter.stop()
    point_to_latest(simulation_config.runs)
    return result
