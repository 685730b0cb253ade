"""`make paper`: all runs for the figures, and their report; `make map`: the map alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foundation.concurrency import run_interruptibly
from foundation.errors import HotlineError
from foundation.logs.access.access_settings import LogSettings
from foundation.text import pluralize, signed
from hotline.cli.common import json_option, print_json
from hotline.cli.fields import fills
from hotline.cli.options import LOG

if TYPE_CHECKING:
    from hotline_paper.plan import Stage

INTERRUPTED = 130
_REFRESH_HZ = 2


@click.group()
def main() -> None:
    """Run the stages behind the figures, as root; finished stages are reused."""


_quick_option = click.option("--quick", is_flag=True, help="Fewer and shorter runs: 5 minutes.")
_into_option = click.option(
    "--into", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to."
)


@main.command("all")
@_quick_option
@_into_option
def run_all(quick: bool, into: Path | None) -> None:
    """Run all stages, and write runs/paper/report.html."""
    from hotline_paper.plan import all_stages
    from hotline_paper.report import write_paper

    folder = into or Path("runs/paper-quick" if quick else "runs/paper")
    stages = all_stages(quick)
    with _one_line_errors():
        start = time.monotonic()
        _run_with_progress(stages, folder)
        report = run_interruptibly(lambda: write_paper(stages, folder, [], _report_drawing))
    minutes = (time.monotonic() - start) / 60
    click.echo(f"{pluralize(len(stages), 'stage')}, {minutes:.1f} minutes; figures: {folder / 'figures'}")
    click.echo(f"report: {report}")


@main.command("map")
@_quick_option
@_into_option
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Your access log or training set, marked on the map.",
)
@fills(LogSettings, "settings", **LOG)
@json_option
def run_map(quick: bool, into: Path | None, data: Path | None, settings: LogSettings, as_json: bool) -> None:
    """Draw the map of when offload pays, with your data on it."""
    from hotline_paper.costs import read_measured
    from hotline_paper.map import TITLES, marker_of
    from hotline_paper.numbers import numbers_of
    from hotline_paper.plan import map_stages
    from hotline_paper.report import write_map
    from hotline_paper.stages import result_path

    # `make paper` and `make map` share these runs.
    folder = into or Path("runs/paper-quick" if quick else "runs/paper")
    stages = map_stages(quick)
    with _one_line_errors():
        options = settings.read_options
        note = partial(click.echo, err=True)
        markers = [] if data is None else [run_interruptibly(lambda: marker_of(data, options, note))]
        _run_with_progress(stages, folder)
        runs = {stage.name: read_measured(result_path(stage, folder)) for stage in stages}
        offload_map, page = run_interruptibly(lambda: write_map(runs, folder, markers))
    if as_json:
        print_json(numbers_of(runs.values(), offload_map, markers).model_dump())
        return
    for marker in markers:
        share, keys = f"{marker.skew:.1%}", f"{marker.keys:,.0f}"
        click.echo(f"{marker.name}: the top 2 % take {share} of the updates, {keys} keys a step")
        for quantity, change in marker.changes(offload_map.costs).items():
            click.echo(f"  {TITLES[quantity]}: {signed(100 * change)}%")
    click.echo(f"map: {page}")


def _run_with_progress(stages: Sequence[Stage], folder: Path) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from hotline_paper.stages import run_stages

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, refresh_per_second=_REFRESH_HZ, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("", total=None)
        last_shown = ""

        def show(done: float, total: float, activity: str) -> None:
            nonlocal last_shown
            bars.update(task, completed=done, total=total, description=activity)
            if activity != last_shown and not console.is_terminal:
                console.print(f"{activity}: {done:.0f} of about {total:.0f} s")
            last_shown = activity

        run_stages(stages, folder, show)


def _report_drawing(activity: str) -> None:
    click.echo(f"drawing: {activity}", err=True)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except HotlineError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("hotline: interrupted; repeat the command to go on with the unfinished stages", err=True)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
