"""Shared parts of the commands: options, one-line errors, the switch's address, JSON and tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.address import SwitchAddress, check_listening
from foundation.errors import HotlineError
from hotline.cli.interruption import INTERRUPTED, interrupted_message
from hotline.cli.named_switch import named_switch, switch_name

if TYPE_CHECKING:
    from controller.controller import Controller

_PLAIN_WIDTH = 120  # columns of the output
_COLUMN_GAP = (0, 2, 0, 0)  # top, right, bottom, left
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
ON_OFF = {True: "on", False: "off"}
F = TypeVar("F", bound=Callable[..., None])
T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


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


@contextmanager
def one_line_errors() -> Iterator[None]:
    try:
        yield
    except HotlineError as error:
        raise click.ClickException(str(error)) from error


def run_on_switch(
    switch: SwitchAddress,
    action: Callable[[Controller], Awaitable[T]],
    *,
    primary: bool = True,
    retry_hint: Callable[[], str | None] = lambda: None,
) -> T:
    """Run an action as `call_switch` does, with errors of one line; name the switch if a run has several."""
    if name := switch_name(switch.address):
        click.echo(f"switch {named_switch(switch.address, name)}", err=True)
    with one_line_errors():
        return call_switch(switch, action, primary=primary, retry_hint=retry_hint)


def call_switch(
    switch: SwitchAddress,
    action: Callable[[Controller], Awaitable[T]],
    *,
    primary: bool = True,
    retry_hint: Callable[[], str | None] = lambda: None,
) -> T:
    """Run an action on a new connection; `retry_hint` returns the command to repeat after Ctrl-C."""
    check_listening(switch.address)

    async def run() -> T:
        from controller.controller import Controller  # takes a second, and the switch is there

        async with Controller(switch.address, device_id=switch.device_id, primary=primary) as controller:
            return await action(controller)

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
