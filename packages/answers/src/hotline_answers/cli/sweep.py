from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controller.dask_cluster import Parallelism
from experiment.progress import named_progress_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import PATH, into_option, one_line_errors, print_json
from hotline.cli.options import simulation_options

if TYPE_CHECKING:
    from hotline_answers.sweeps.plan import Sweep
    from hotline_answers.sweeps.point import SweepPoint
    from hotline_simulator.study import Results


@click.command()
@click.argument("names", nargs=-1, metavar="[SWEEP]...")
@click.option(
    "--config",
    type=PATH,
    help="Configuration for --vary. [default: that of `hotline simulate`]",
)
@click.option(
    "--vary",
    metavar="SETTING=V1,V2,...",
    help="Sweep a setting of your own, for example network.rate_mbit=100,1000.",
)
@into_option("Folder of the results; those of the same settings and code are reused.", Path("runs/sweeps"))
@simulation_options
def sweep(
    names: tuple[str, ...], config: Path | None, vary: str | None, into: Path, parallelism: Parallelism,
    as_json: bool,
) -> None:  # fmt: skip
    """Simulate the points of sweeps in parallel.

    SWEEP is clusters (S1 to S6 of Pan et al., 2020), training (Fig. 1), top-k, skew, bandwidth, incast or
    connections; without SWEEP, all of them. Results do not depend on where points are simulated.
    """
    from hotline_answers.sweeps.page import write_page
    from hotline_answers.sweeps.plan import points_of
    from hotline_simulator.study import run_points

    with one_line_errors():
        selected_sweeps = _select_sweeps(names, config, vary)
        points = list(points_of(selected_sweeps))
        with named_progress_bar("simulating") as progress:
            results = run_points(points, into, parallelism.scheduler, parallelism.processes, progress)
        page = run_interruptibly(lambda: write_page(selected_sweeps, results, into))
    if as_json:
        print_json(_as_json(selected_sweeps, results))
    else:
        click.echo(f"report: {page}")
    _fail_if_updates_lost(points, results)


def _select_sweeps(names: tuple[str, ...], config: Path | None, setting: str | None) -> list[Sweep]:
    from experiment.run_config import load_config_as
    from hotline_answers.sweeps.plan import sweeps, vary
    from hotline_simulator.config import DDL, SimulationConfig

    if setting is None:
        if config is not None:
            raise click.UsageError("--config requires --vary SETTING=V1,V2,...")
        return sweeps(names)
    if names:
        raise click.UsageError(f"{names[0]} and --vary exclude each other")
    base = DDL if config is None else load_config_as(SimulationConfig, [f"CONFIG={config}"])
    name, _, values = setting.partition("=")
    try:
        json_values = [json.loads(value) for value in values.split(",")]
        numbers = [
            value for value in json_values if isinstance(value, int | float) and not isinstance(value, bool)
        ]
    except json.JSONDecodeError:
        json_values, numbers = [values], []
    if len(numbers) < len(json_values):
        raise click.UsageError(f"--vary {setting}: expected SETTING=V1,V2,... with numbers")
    return [vary(base, name, numbers)]


def _as_json(selected_sweeps: Sequence[Sweep], results: Results) -> dict[str, object]:
    return {
        sweep.name: {
            point.label: {"x": point.x, **results.of(point).model_dump(mode="json")} for point in sweep.points
        }
        for sweep in selected_sweeps
    }


def _fail_if_updates_lost(points: Sequence[SweepPoint], results: Results) -> None:
    for point in points:
        result = results.of(point).result
        if result.lost or result.mismatched_keys:
            raise click.ClickException(
                f"{point.title}: {result.lost} updates were lost, at {result.mismatched_keys} keys"
            )
