from __future__ import annotations

import logging
from importlib.metadata import entry_points
from itertools import chain

import click

from experiment.progress import compilation_shown
from foundation.errors import os_error_message
from hotline.cli.examples import add_examples
from hotline.cli.explain import explain
from hotline.cli.faults import faults
from hotline.cli.follow import follow
from hotline.cli.hotset import hotset
from hotline.cli.interruption import INTERRUPTED, interrupted_message
from hotline.cli.report import compare, figures, logs, report
from hotline.cli.run import down, recover, run, simulate, up
from hotline.cli.status import registers, status
from hotline.cli.switch import load, offload, proxy, quota, unload
from hotline.cli.watch import watch

_HELP_CHARACTERS = 66  # of a command's line in `hotline --help`


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            if not commands:  # no package is installed
                continue
            with formatter.section(title):
                formatter.write_dl(
                    [(each.name or "", each.get_short_help_str(_HELP_CHARACTERS)) for each in commands]
                )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, to stderr.")
def hotline(verbose: bool) -> None:
    """Find out what a programmable switch would do for parameter servers.

    `hotline COMMAND --help` ends with an example; docs/guide.md is organised by task.
    """
    logging.basicConfig(
        format="%(levelname)s: %(message)s", level=logging.DEBUG if verbose else logging.WARNING
    )
    # An error that finsy logs with a stack trace is also raised, and then printed as one line.
    logging.getLogger("finsy").setLevel(logging.INFO if verbose else logging.CRITICAL + 1)


_PACKAGES: tuple[click.Command, ...] = tuple(
    entry_point.load()
    for entry_point in sorted(entry_points(group="hotline.commands"), key=lambda each: each.name)
)
GROUPS = {
    "Runs and their reports": (run, report, figures, compare, logs, watch, recover),
    "Logs and hot sets": (hotset, explain),
    "Simulations": (simulate, faults),
    "Scripts of your own": (up, down),
    "The switch of a run, while it is up": (status, load, follow, quota, offload, proxy, registers, unload),
    "Packages": _PACKAGES,
}
for command in chain(*GROUPS.values()):
    hotline.add_command(command)
add_examples(hotline)
