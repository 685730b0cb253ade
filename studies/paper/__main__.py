"""`make paper`: all that the figures need, and their report; `make map`: the map alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foundation.concurrency import run_interruptibly
from foundation.errors import HotlineError
from foundation.words import counted

if TYPE_CHECKING:
    from studies.paper.plan import Stage

INTERRUPTED = 130
_HZ = 2


@click.group()
def main() -> None:
    """Run what the figures need, as root; what is done is not done again."""


_quick = click.option("--quick", is_flag=True, help="Fewer and shorter runs: 5 minutes.")
_into = click.option("--into", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.")


@main.command("all")
@_quick
@_into
def all_(quick: bool, into: Path | None) -> None:
    """All runs, and runs/paper/report.html."""
    from studies.paper.plan import plan
    from studies.paper.report import write_paper

    folder = into or Path("runs/paper-quick" if quick else "runs/paper")
    stages = plan(quick)
    with _told():
        begun = time.monotonic()
        _do(stages, folder)
        report = run_interruptibly(lambda: write_paper(stages, folder, [], _tell))
    took = (time.monotonic() - begun) / 60
    click.echo(f"{counted(len(stages), 'stage')}, {took:.1f} minutes; figures: {folder / 'figures'}")
    click.echo(f"report: {report}")


@main.command("map")
@_quick
@_into
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Your update log or training set: a point.",
)
def map_(quick: bool, into: Path | None, data: Path | None) -> None:
    """The map of when offload pays, and where your own data are on it."""
    from studies.paper.measured import read_measured
    from studies.paper.own import place_of
    from studies.paper.plan import map_plan
    from studies.paper.report import write_map
    from studies.paper.stages import result_of

    # Runs of `make paper` are those of the map, too.
    folder = into or Path("runs/paper-quick" if quick else "runs/paper")
    stages = map_plan(quick)
    with _told():
        own = [] if data is None else [run_interruptibly(lambda: place_of(data))]
        _do(stages, folder)
        runs = {stage.name: read_measured(result_of(stage, folder)) for stage in stages}
        mapped, page = run_interruptibly(lambda: write_map(runs, folder, own))
    for place in own:
        click.echo(
            f"{place.name}: the top 2 % take {place.skew:.1%} of the updates, {place.keys:,.0f} keys a step"
        )
        for what, change in place.changes(mapped.costs).items():
            click.echo(f"  {what}: {change:+.0%}")
    click.echo(f"map: {page}")


def _do(stages: Sequence[Stage], folder: Path) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from studies.paper.stages import do_stages

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, refresh_per_second=_HZ, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=None)
        told = ""

        def show(done: float, whole: float, what: str) -> None:
            nonlocal told
            bars.update(task, completed=done, total=whole, description=what)
            if what != told and not console.is_terminal:
                console.print(f"{what}: {done:.0f} of some {whole:.0f} s")
            told = what

        do_stages(stages, folder, show)


def _tell(what: str) -> None:
    click.echo(f"drawing: {what}", err=True)


@contextmanager
def _told() -> Iterator[None]:
    """Errors and Ctrl-C in one line each."""
    try:
        yield
    except HotlineError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("hotline: interrupted; the same command again goes on where it was", err=True)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
