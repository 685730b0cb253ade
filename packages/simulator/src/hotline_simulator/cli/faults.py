from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import Field
from rich.console import Console

from controller.dask_cluster import Parallelism
from experiment.progress import progress_bar
from foundation.errors import HotlineError
from foundation.settings import Strict
from hotline.cli.common import (
    FILE,
    one_line_errors,
    plain_table,
    print_json,
)
from hotline.cli.fields import fills
from hotline.cli.options import simulation_options

if TYPE_CHECKING:
    from hotline_simulator.faults.matrix import MatrixRow, Tally


class FaultsSettings(Strict):
    arms: tuple[str, ...] = ()
    """offload, offload-proxy, none, collect, or MODULE:ARM of a design of yours. ARM@PLACE is in a network of
    leaves and a spine: spine or leaves, not of none, and worker-leaves of collect. In the last case
    ARM@PLACE-sprayed has two spines, at which packets take turns. [default: all at a single switch]"""
    schedules: int = Field(default=4_000, ge=1)
    """Number of schedules of each fault and arm."""
    seed: int = Field(default=0, ge=0, le=2**32)
    """Seed of the first schedule."""


@click.command()
@click.argument("names", nargs=-1, metavar="[FAULT]...")
@fills(FaultsSettings, "settings", arms={"names": ("--arm",)})
@click.option(
    "--into",
    type=FILE,
    default=Path("runs/faults.json"),
    help="File of the results; schedules that fail are written to files beside it.",
)
@click.option("--replay", type=FILE, help="Play only the schedule in this file again, and print its history.")
@simulation_options
def faults(
    names: tuple[str, ...], settings: FaultsSettings, into: Path, replay: Path | None,
    parallelism: Parallelism, as_json: bool,
) -> None:  # fmt: skip
    """Inject faults, and check that no update is lost or doubled.

    FAULT is a name such as "switch restarted"; without one, all are played. An unknown name prints a list
    of all. Exits with 1 if a schedule fails, and writes the shortest failing part of it to a file for
    --replay.
    """
    from foundation.logs.parts import write_into_folder
    from hotline_simulator.faults.matrix import as_rows, play_rows

    with one_line_errors():
        if replay is not None:
            _replay(replay, as_json)
            return
        rows = _select_rows(names, settings.arms)
        start_s = time.monotonic()
        with progress_bar("playing") as progress:
            tallies = play_rows(
                rows,
                settings.schedules,
                settings.seed,
                parallelism.scheduler,
                parallelism.processes,
                progress,
            )
        duration_s = time.monotonic() - start_s
        results = as_rows(tallies)
        write_into_folder(into, json.dumps(results, indent=2) + "\n")
        first_failure = _describe_first_failure(tallies, into.parent)
    if as_json:
        print_json(results)
    else:
        _print_results(results, duration_s)
    if first_failure:
        raise click.ClickException(first_failure)


def _select_rows(names: tuple[str, ...], arms: tuple[str, ...]) -> list[MatrixRow]:
    from hotline_simulator.faults.kinds import FAULTS
    from hotline_simulator.faults.matrix import rows_of
    from hotline_simulator.faults.schedule import ARMS

    for name in names:
        if name not in FAULTS:
            raise HotlineError(f"expected fault ({', '.join(FAULTS)}), got {name!r}")
    rows = [(fault, arm) for fault, arm in rows_of(arms or ARMS) if not names or fault in names]
    if not rows:
        raise HotlineError(
            f"{', '.join(names)} cannot be injected into {', '.join(arms)}: "
            "the designs of these arms have no part that the faults concern"
        )
    return rows


def _describe_first_failure(tallies: dict[MatrixRow, Tally], folder: Path) -> str | None:
    from foundation.logs.parts import write_into_folder
    from hotline_simulator.faults.matrix import cached_testbed
    from hotline_simulator.faults.schedule import FaultSchedule
    from hotline_simulator.faults.shrink import shrink

    first_failure = None
    for (fault, arm), tally in tallies.items():
        if tally.holds:
            continue
        summary = (
            f"{fault}, {arm}: {tally.lost} keys lost, {tally.doubled} doubled, "
            f"{tally.torn} rows torn, {tally.misread} values misread, {tally.stuck} schedules stuck, "
            f"{tally.schedules - tally.happened} in which the fault did not occur"
        )
        if tally.failures:
            failing_schedule = FaultSchedule.from_json(tally.failures[0].schedule)
            path = folder / f"fault-{fault.replace(' ', '-')}-{arm}.json"
            write_into_folder(path, shrink(cached_testbed(arm), failing_schedule).to_json() + "\n")
            summary += f"; the shortest schedule that fails is in {path}: hotline faults --replay {path}"
        first_failure = first_failure or summary
    return first_failure


def _replay(path: Path, as_json: bool) -> None:
    from foundation.logs.parts import read_text
    from hotline_simulator.faults.kinds import check_names, play_schedule
    from hotline_simulator.faults.matrix import cached_testbed
    from hotline_simulator.faults.operations import history_of
    from hotline_simulator.faults.schedule import FaultSchedule

    text = read_text(path)
    try:
        schedule = FaultSchedule.from_json(text)
        check_names(schedule)
    except ValueError as error:
        raise HotlineError(f"{path}: expected a schedule: {error}") from error
    testbed = cached_testbed(schedule.arm)
    outcome = play_schedule(testbed, schedule)
    history = history_of(testbed.operations)
    if as_json:
        print_json({"holds": outcome.holds, "outcome": str(outcome), "history": history})
    else:
        for line in history:
            click.echo(" ".join(f"{name}={value}" for name, value in line.items()))
        click.echo(f"{schedule}\n{outcome}")
    if not outcome.holds:
        raise click.ClickException(f"{path}: the schedule fails")


def _print_results(rows: list[dict[str, Any]], duration_s: float) -> None:
    columns = ["fault", "arm", "schedules", "RPCs", "lost", "doubled", "recovery p50", "p99, ms"]
    cells = [
        [
            row["fault"],
            row["arm"],
            *(f"{row[name]:,}" for name in ("schedules", "rpcs", "lost", "doubled")),
            *(f"{row['recovery_ms'][name]:,.2f}" for name in ("p50", "p99")),
        ]
        for row in rows
    ]
    Console().print(plain_table(columns, cells))
    click.echo(f"{sum(row['schedules'] for row in rows):,} schedules in {duration_s:,.0f} s")
