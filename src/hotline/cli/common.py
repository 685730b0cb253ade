"""Shared parts of the commands: options, one-line errors, the switch's address, JSON and tables."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.client import DEFAULT_ADDRESS
from controller.controller import Controller
from foundation.errors import HotlineError
from foundation.logs.access.block import SAMPLES_PER_STEP
from foundation.logs.access.columns import ROLES, add_columns
from foundation.logs.access.dialect import FORMATS
from hotline.cli.interruption import INTERRUPTED, interrupted_message

_PLAIN_WIDTH = 120  # columns of the output
_COLUMN_GAP = (0, 2, 0, 0)  # top, right, bottom, left
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
ON_OFF = {True: "on", False: "off"}
F = TypeVar("F", bound=Callable[..., None])
T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Count updates on the dask.distributed cluster at ADDRESS (tcp://HOST:PORT); it must see the LOGs.",
)
job_option = click.option("--job", type=click.IntRange(0, 0xFFFF), required=True, help="Id of the job.")


def rule_option(default: str, help: str) -> Callable[[F], F]:
    help_of_names = "an installed rule's name, module:ATTRIBUTE, or the dotted name of a module with a RULE"
    return click.option("--rule", metavar="NAME", default=default, help=f"{help}: {help_of_names}.")


def log_options(function: F) -> F:
    """Add the options of reading a log; those on columns arrive as the text `columns`."""

    @wraps(function)
    def with_columns(
        columns: tuple[str, ...], text: tuple[str, ...], ignore: tuple[str, ...], weight: tuple[str, ...],
        **options: object,
    ) -> None:  # fmt: skip
        function(columns=add_columns(columns, text=text, ignore=ignore, weight=weight), **options)

    def column_option(name: str, help: str) -> Callable[[F], F]:
        return click.option(name, multiple=True, metavar="COLUMN", help=f"{help} May be repeated.")

    columns = click.option(
        "--columns",
        multiple=True,
        metavar="ROLE=NAME,...",
        help=f"Columns of the log, by name or number: {', '.join(ROLES)}; each key column is a table. "
        "May be repeated. [default: guessed]",
    )
    format = click.option(
        "--format",
        type=click.Choice(FORMATS),
        help="Format of the log. [default: the one that explains most of its first lines]",
    )
    separator = click.option(
        "--separator",
        metavar="TEXT",
        help="What separates the values of a line: a text, or tab, space, comma, semicolon or bar. "
        "[default: guessed]",
    )
    text = column_option("--text", "Read a column's cells as one text each, also if they look like numbers.")
    ignore = column_option("--ignore", "Give a column no role.")
    weight = click.option(
        "--weight", multiple=True, metavar="COLUMN", help="Column of counts: a row stands for so many rows."
    )
    batch = click.option(
        "--batch",
        "--samples-per-step",
        "batch",
        type=click.IntRange(min=1),
        default=SAMPLES_PER_STEP,
        help="Rows in a mini-batch, for a log without an iteration column.",
    )
    skip_bad = click.option("--skip-bad", is_flag=True, help="Skip and count bad rows.")
    options = (columns, format, separator, text, ignore, weight, batch, skip_bad)
    decorated = cast(F, with_columns)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def simulation_options(function: F) -> F:
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Simulate on the dask.distributed cluster at ADDRESS (tcp://HOST:PORT), with Hotline installed.",
    )
    processes = click.option(
        "--processes",
        type=click.IntRange(1, 256),
        default=lambda: os.cpu_count() or 1,
        show_default=False,
        help="Number of processes that simulate in parallel, without --scheduler. [default: one per CPU]",
    )
    return scheduler(processes(json_option(function)))


def print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(note, err=True)


def into_option(help: str, default: Path | None = None) -> Callable[[F], F]:
    return click.option("--into", type=FOLDER, default=default, help=help)


class Number(click.FloatRange):
    """A finite number in a range; Click's own ranges let `nan` through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class DefaultGroup(click.Group):
    """A group whose first command is meant where no other is named: `hotline answer --workers 8`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def switch_options(function: F) -> F:
    device = click.option(
        "--device-id",
        default=1,
        help="Device id of the switch.",
        type=click.IntRange(min=1),
    )
    address = click.option(
        "--switch", "address", default=DEFAULT_ADDRESS, metavar="HOST:PORT",
        help="P4Runtime address of the switch.",
    )  # fmt: skip
    return address(device(function))


@contextmanager
def one_line_errors() -> Iterator[None]:
    try:
        yield
    except HotlineError as error:
        raise click.ClickException(str(error)) from error


def run_on_switch(
    address: str,
    device_id: int,
    action: Callable[[Controller], Awaitable[T]],
    *,
    primary: bool = True,
    retry_hint: Callable[[], str | None] = lambda: None,
) -> T:
    """Run an action on a new connection; `retry_hint` returns the command to repeat after Ctrl-C."""

    async def run() -> T:
        async with Controller(address, device_id=device_id, primary=primary) as controller:
            return await action(controller)

    with one_line_errors():
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            click.echo(interrupted_message(retry_hint()), err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    Console().print(_fill_table(Table(title=title, title_justify="left"), columns, rows))


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    return _fill_table(Table(box=None, pad_edge=False, padding=_COLUMN_GAP), columns, rows)


def print_plain_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    Console(width=_PLAIN_WIDTH).print(plain_table(columns, rows))


def number_cells(*cells: object) -> list[Text]:
    return [Text(str(cell)) for cell in cells]


def _fill_table(table: Table, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    for index, column in enumerate(columns):
        # `number_cells` makes cells of formatted numbers, which are Text.
        is_numeric = bool(rows) and isinstance(rows[0][index], int | float | Text)
        table.add_column(column, justify="right" if is_numeric else "left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    return table


def print_study(page: Path, numbers: dict[str, object] | None) -> None:
    """Print the numbers of a study as JSON if given, or else where its page is."""
    if numbers is None:
        click.echo(f"report: {page}")
    else:
        print_json(numbers)
