from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from controller.hotset.choice import MAX_KEYS
from foundation.concurrency import run_interruptibly
from foundation.logs.training import TRAIN_SHARE
from hotline.cli.common import (
    PATH,
    Number,
    into_option,
    json_option,
    log_options,
    one_line_errors,
    plain_table,
    print_notes,
)

if TYPE_CHECKING:
    from hotline_policies.result import BuiltIn
    from hotline_policies.results import Study

_WIDTH = 120
"""Columns of the output if it is not a terminal."""

_positive_option = partial(click.option, type=Number(min=0, min_open=True))


@click.command("compare")
@click.argument("files", nargs=-1, type=PATH, metavar="[LOG|DATA]...")
@click.option(
    "--built-in",
    type=click.Choice(["r1", "r2"]),
    help="Generate a log with the skew of Pan et al. (2020) instead of reading files.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=4),
    default=4000,
    help="With --built-in: steps of all workers together.",
)
@_positive_option(
    "--half-life", help="With --built-in: steps after which half of the ranks have another key."
)
@click.option(
    "--shift", is_flag=True, help="With --built-in: half of the hot keys change at three quarters of the log."
)
@click.option(
    "--sizes",
    metavar="K,K,...",
    help="Numbers of keys in the switch. [default: ten sizes from 100 to 100,000]",
)
@click.option("--only", metavar="NAME,...", help="Compare only these policies, for example top-k,lru.")
@click.option(
    "--rule",
    "rules",
    metavar="NAME",
    multiple=True,
    help="Also score this rule of live hot sets, as a run and `hotline follow` use it: an installed rule's "
    "name, module:ATTRIBUTE, or the dotted name of a module with a RULE. May be repeated.",
)
@click.option(
    "--train-share",
    type=Number(0, 1, min_open=True, max_open=True),
    default=TRAIN_SHARE,
    help="Fixed sets are chosen from this first share of the steps; all policies are scored on the rest.",
)
@_positive_option(
    "--rate",
    default=250.0,
    help="Steps/s of all workers, to compute moves/s and the steps of a period.",
)
@_positive_option(
    "--period-s",
    help="Seconds after which sets are chosen again, and hashed slots are cleared. "
    "[default: 10, or a twentieth of a short log]",
)
@_positive_option(
    "--writes-per-s", help="Table writes/s of the control plane. [default: the rate of softswitch, 749,000]"
)
@click.option(
    "--servers",
    type=click.IntRange(1, 1000),
    default=2,
    help="Number of parameter servers.",
)
@log_options
@into_option(
    "Folder of the results; those of the same log, settings and code are reused.", Path("runs/policies")
)
@json_option
def compare(
    files: tuple[Path, ...], built_in: BuiltIn | None, steps: int, half_life: float | None, shift: bool,
    sizes: str | None, only: str | None, rules: tuple[str, ...], writes_per_s: float | None, batch: int,
    into: Path, as_json: bool, **settings: object,
) -> None:  # fmt: skip
    """Compare cache policies for the keys in the switch.

    Prints hits, moves, and the share of the packets to servers that each policy saves. LOGs, folders and
    patterns are merged; docs/logs.md has their formats. DATA are libsvm training sets, concatenated.
    Needs no switch, no run and no root.
    """
    from hotline_policies.page import write_page
    from hotline_policies.result import study
    from hotline_policies.results import WRITES_PER_S, StudySettings

    _check_source(files, built_in, half_life, shift)
    with one_line_errors(), _progress_bar() as progress:
        results = study(
            files,
            built_in=built_in,
            steps=steps,
            half_life=half_life,
            shift=shift,
            into=into,
            progress=progress,
            sizes=_parse_sizes(sizes) or StudySettings().sizes,
            policies=_policy_names(only, rules),
            writes_per_s=writes_per_s or WRITES_PER_S,
            samples_per_step=batch,
            **settings,
        )
        progress("drawing", 1, 1)
        page = run_interruptibly(lambda: write_page(results, into))
    print_notes(results.facts.notes)
    if as_json:
        click.echo(results.model_dump_json(indent=2))
    else:
        _print(results)
        click.echo(f"report: {page}")


def _check_source(files: Sequence[Path], built_in: str | None, half_life: float | None, shift: bool) -> None:
    if bool(files) == bool(built_in):
        raise click.UsageError("give LOG or DATA files, or else --built-in r1 or r2, and not both")
    if built_in is None and (half_life is not None or shift):
        raise click.UsageError("--half-life and --shift belong to a generated log: give --built-in, too")


def _policy_names(only: str | None, rules: Sequence[str]) -> tuple[str, ...]:
    from hotline_policies.rules import BY_NAME, names_of_rule

    if only is None and not rules:
        return ()
    names = list(BY_NAME) if only is None else only.split(",")
    return (*names, *chain(*map(names_of_rule, rules)))


def _parse_sizes(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    numbers = [part.replace("_", "") for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= MAX_KEYS for part in numbers):
        raise click.UsageError(f"--sizes {text}: expected integers from 1 to {MAX_KEYS:,}, comma-separated")
    return tuple(sorted({int(part) for part in numbers}))


@contextmanager
def _progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None)
        yield lambda activity, done, total: progress.update(
            task, description=activity, completed=done, total=total
        )


def _print(results: Study) -> None:
    from hotline_policies.figures import shown_size
    from hotline_policies.findings import findings, headline
    from hotline_policies.table import cells, columns, columns_by_table, rows_by_table

    size = shown_size(results)
    console = Console()
    if not sys.stdout.isatty():
        console.width = _WIDTH
    facts = results.facts
    click.echo(f"{facts.name}: {facts.updates:,} updates scored, {size:,} keys in the switch\n")
    rows = [[each.title, *map(Text, cells(results, each))] for each in results.at(size).values()]
    table = plain_table(["policy", *columns(results)], rows)
    table.columns[0].no_wrap = True
    console.print(table)
    if facts.tables:
        console.print("\nShare of each table's updates that hit")
        rows = [[name, *map(Text, numbers)] for name, *numbers in rows_by_table(results, size)]
        console.print(plain_table(["table", "updates", *columns_by_table(results, size)], rows))
    click.echo(f"\n{headline(results)}")
    for sentence in findings(results):
        click.echo(f"• {sentence}")
