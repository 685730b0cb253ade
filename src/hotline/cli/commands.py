from __future__ import annotations

import logging
from itertools import chain

import click

from foundation.errors import os_error_message
from foundation.renamed import COMMANDS, OPTIONS, expected, find_old
from hotline.cli.answer import answer
from hotline.cli.examples import add_examples
from hotline.cli.explain import explain
from hotline.cli.faults import faults
from hotline.cli.follow import follow
from hotline.cli.hotset import hotset
from hotline.cli.interruption import INTERRUPTED, interrupted_message
from hotline.cli.layers import layers
from hotline.cli.miss_ratio import miss_ratio
from hotline.cli.overlap import overlap
from hotline.cli.policies import policies
from hotline.cli.predict import fit, predict
from hotline.cli.recover import recover
from hotline.cli.registers import registers
from hotline.cli.report import compare, figures, logs, report
from hotline.cli.run import down, run, simulate, up
from hotline.cli.status import status
from hotline.cli.studies import allreduce, optimisers
from hotline.cli.sweep import sweep
from hotline.cli.switch import load, offload, proxy, quota, unload
from hotline.cli.watch import watch
from hotline.cli.whatif import whatif

_HELP_CHARACTERS = 66  # of a command's line in `hotline --help`


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for the old name of a renamed command, fail with the new name."""
        if message := find_old("command", COMMANDS, args[:1]):
            ctx.fail(message)
        return super().resolve_command(ctx, args)

    def invoke(self, context: click.Context) -> object:
        """Run a command; on Ctrl-C print one line and exit with 130, not with Click's "Aborted!" and 1."""
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            command = "" if error.ctx is None else error.ctx.command.name or ""
            new_name = OPTIONS.get((command, error.option_name))
            if new_name is None:
                raise
            raise click.UsageError(expected("option", new_name, error.option_name), error.ctx) from None
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


GROUPS = {
    "Runs and their reports": (run, report, figures, compare, logs, watch, recover),
    "Answers without a network or root": (
        answer,
        explain,
        hotset,
        policies,
        miss_ratio,
        whatif,
        overlap,
        layers,
    ),
    "Simulations": (simulate, sweep, allreduce, optimisers, faults, fit, predict),
    "Scripts of your own": (up, down),
    "The switch of a run, while it is up": (status, load, follow, quota, offload, proxy, registers, unload),
}
for command in chain(*GROUPS.values()):
    hotline.add_command(command)
add_examples(hotline)
