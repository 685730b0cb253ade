from __future__ import annotations

import logging
from collections import UserDict
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from typing import Any, Final

import click

from experiment.progress import compilation_shown
from foundation.errors import os_error_message
from foundation.packages import install_hint
from hotline.cli.examples import add_examples
from hotline.cli.interruption import INTERRUPTED, interrupted_message

_HELP_CHARACTERS = 66  # of a command's line in `hotline --help`


class VerbCommands(UserDict[str, Any]):
    """Commands by name. Their modules are imported when they are asked for: a process runs one of them."""

    def __getitem__(self, name: str) -> click.Command:
        command = self.data[name]
        if isinstance(command, EntryPoint):
            command = self.data[name] = command.load()
            add_examples(command)
        assert isinstance(command, click.Command)
        return command

    def load(self, words: Sequence[str]) -> None:
        """Import the command that these words name; without words, import all, because help shows all."""
        names = [word for word in words if not word.startswith("-")]
        for name in [name for name in names if name in self][:1] if names else list(self):
            self[name]


_CORE: Final[Mapping[str, str]] = {
    "new": "hotline.cli.new:new",
    "run": "hotline.cli.run:run",
    "report": "hotline.cli.report:report",
    "figures": "hotline.cli.report:figures",
    "compare": "hotline.cli.report:compare",
    "logs": "hotline.cli.report:logs",
    "watch": "hotline.cli.watch:watch",
    "hotset": "hotline.cli.hotset:hotset",
    "status": "hotline.cli.status:status",
    "load": "hotline.cli.switch:load",
    "follow": "hotline.cli.follow:follow",
    "quota": "hotline.cli.switch:quota",
    "offload": "hotline.cli.switch:offload",
    "proxy": "hotline.cli.switch:proxy",
    "registers": "hotline.cli.status:registers",
    "unload": "hotline.cli.switch:unload",
}
_PACKAGES = {each.name: each for each in entry_points(group="hotline.commands")}
_TITLES: Final[Mapping[str, tuple[str, ...]]] = {
    "Runs and their reports": ("run", "report", "figures", "compare", "logs", "watch", "recover"),
    "Logs and hot sets": ("hotset", "explain"),
    "Simulations": ("simulate", "faults"),
    "Designs and scripts of your own": ("new", "up", "down"),
    "The switch of a run, while it is up": (
        "status", "load", "follow", "quota", "offload", "proxy", "registers", "unload",
    ),
}  # fmt: skip
"""Verbs by the title under which help shows them. A package may have them, and they may not be installed."""
_ENTRY_POINTS = {
    name: EntryPoint(name, place, group="hotline.commands") for name, place in _CORE.items()
} | _PACKAGES
GROUPS = {title: tuple(name for name in names if name in _ENTRY_POINTS) for title, names in _TITLES.items()}
GROUPS["Packages"] = tuple(sorted(_ENTRY_POINTS.keys() - {*chain(*_TITLES.values())}))
COMMANDS = VerbCommands({name: _ENTRY_POINTS[name] for name in chain(*GROUPS.values())})


class _Commands(click.Group):
    def invoke(self, context: click.Context) -> object:
        """Run a command; on Ctrl-C print one line and exit with 130, not with Click's "Aborted!" and 1."""
        try:
            with compilation_shown():
                return super().invoke(context)
        except KeyboardInterrupt:
            click.echo(interrupted_message(), err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # Click ends quietly if the reader of the output has gone
        except OSError as error:
            # The system refused an operation on a file, whichever it was: this is no fault of the program.
            raise click.ClickException(os_error_message(error)) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and (hint := install_hint("hotline.commands", args[0])):
            raise click.UsageError(f"No such command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            if not names:  # no package is installed
                continue
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(_HELP_CHARACTERS)) for name in names]
                )


@click.group(
    cls=_Commands,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, to stderr.")
def hotline(verbose: bool) -> None:
    """Find out what a programmable switch would do for parameter servers.

    `hotline COMMAND --help` ends with an example. docs/start.md is a first walk,
    docs/guide.md has all tasks, and docs/tutorial.md builds a design of your own.
    """
    logging.basicConfig(
        format="%(levelname)s: %(message)s", level=logging.DEBUG if verbose else logging.WARNING
    )
    # An error that finsy logs with a stack trace is also raised, and then printed as one line.
    logging.getLogger("finsy").setLevel(logging.INFO if verbose else logging.CRITICAL + 1)
