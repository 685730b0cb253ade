"""`hotline policies`: what to keep in the switch, by policies of every kind on one log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from controller.hotset.choice import MOST_KEYS
from foundation.concurrency import run_interruptibly
from hotline.cli.common import Number, json_option, one_line_errors, plain_table, samples_per_step_option

if TYPE_CHECKING:
    from studies.policies.generated import Built
    from studies.policies.results import Study

_FILE = click.Path(path_type=Path, dir_okay=False)


_above_0 = partial(click.option, type=Number(min=0, min_open=True))


@click.command()
@click.argument("files", nargs=-1, type=_FILE, metavar="[LOG|DATA]...")
@click.option(
    "--built-in",
    type=click.Choice(["r1", "r2"]),
    help="Generate a log with [DDL]'s skew instead of reading files.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=4),
    default=4000,
    show_default=True,
    help="With --built-in: steps of all workers together.",
)
@_above_0("--half-life", help="With --built-in: steps after which half of the ranks have another key.")
@click.option(
    "--shift", is_flag=True, help="With --built-in: half of the hot keys change at three quarters of the log."
)
@click.option(
    "--sizes",
    metavar="K,K,...",
    help="Numbers of keys that the switch keeps. [default: ten sizes from 100 to 100,000]",
)
@click.option("--only", metavar="NAME,...", help="Compare only these policies, for example top-k,lru.")
@click.option(
    "--learn",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="First part of the steps, from which fixed sets are chosen; the rest is scored.",
)
@_above_0(
    "--rate",
    default=250.0,
    show_default=True,
    help="Steps/s of all workers, for moves a second and periods.",
)
@_above_0("--every", help="Length of a period in seconds. [default: 10, or a twentieth of a short log]")
@_above_0("--writes", help="Table writes/s of the control plane. [default: what softswitch takes, 417,000]")
@click.option(
    "--servers",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Number of parameter servers.",
)
@samples_per_step_option
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/policies"),
    show_default=True,
    help="Folder of the results; what is there, of the same log, settings and code, is not done again.",
)
@json_option
def policies(
    files: tuple[Path, ...], built_in: str | None, steps: int, half_life: float | None, shift: bool,
    sizes: str | None, only: str | None, learn: float, rate: float, every: float | None, writes: float | None,
    servers: int, samples_per_step: int, into: Path, as_json: bool,
) -> None:  # fmt: skip
    """Compare policies for what the switch keeps.

    Tells hits, moves, and the packets that servers are spared. LOGs are added up: Parquet or CSV with
    iteration, worker, key, and op (pull or push) where pulls are logged, too. DATA are libsvm training sets,
    one behind the other. Needs no switch, no run and no root.
    """
    from studies.policies.page import write_page
    from studies.policies.results import WRITES_PER_S, Settings
    from studies.policies.study import check_names, study

    built = _built(files, built_in, steps, half_life, shift)
    names = () if only is None else tuple(only.split(","))
    with one_line_errors():
        check_names(names)
        settings = Settings(
            sizes=_sizes(sizes) or Settings().sizes,
            policies=names,
            learn=learn,
            rate=rate,
            every=every,
            writes_per_s=writes or WRITES_PER_S,
            servers=servers,
            samples_per_step=samples_per_step,
        )
        with _told() as progress:
            found = study(files, built, settings, into, progress)
            progress("drawing", 1, 1)
            page = run_interruptibly(lambda: write_page(found, into))
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        _print(found)
        click.echo(f"report: {page}")


def _built(
    files: tuple[Path, ...], built_in: str | None, steps: int, half_life: float | None, shift: bool
) -> Built | None:
    from hosts.workload.generator import R1, R2
    from studies.policies.generated import Built

    if bool(files) == bool(built_in):
        raise click.UsageError("give LOG or DATA files, or else --built-in r1 or r2, and not both")
    if built_in is None:
        if half_life is not None or shift:
            raise click.UsageError(
                "--half-life and --shift are of a log that is generated: say --built-in, too"
            )
        return None
    return Built(
        {"r1": R1, "r2": R2}[built_in], steps, half_life=half_life, shift_at=3 * steps // 4 if shift else None
    )


def _sizes(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    numbers = [part.replace("_", "") for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= MOST_KEYS for part in numbers):
        raise click.UsageError(f"--sizes {text}: whole numbers from 1 to {MOST_KEYS:,} with commas are right")
    return tuple(sorted({int(part) for part in numbers}))


@contextmanager
def _told() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal with what is being done, and nothing elsewhere."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def _print(found: Study) -> None:
    from studies.policies.figures import shown_size
    from studies.policies.table import cells, columns
    from studies.policies.words import findings, headline

    size = shown_size(found)
    console = Console()
    if not sys.stdout.isatty():
        console.width = _WIDTH
    click.echo(f"{found.facts.name}: {found.facts.updates:,} updates scored, {size:,} keys kept\n")
    rows: list[list[object]] = [
        [each.title, *map(Text, cells(found, each))] for each in found.at(size).values()
    ]
    table = plain_table(["policy", *columns(found)], rows)
    table.columns[0].no_wrap = True
    console.print(table)
    click.echo(f"\n{headline(found)}")
    for sentence in findings(found):
        click.echo(f"• {sentence}")


_WIDTH = 120
