"""The commands of `hotline`."""

from __future__ import annotations

import logging
from typing import Any

import click

from cli.answer import answer
from cli.faults import faults
from cli.follow import follow
from cli.hotset import hotset
from cli.interruption import INTERRUPTED, interrupted
from cli.layers import layers
from cli.logs import logs
from cli.overlap import overlap
from cli.owed import owed
from cli.policies import policies
from cli.predict import fit, predict
from cli.registers import registers
from cli.report import compare, figures, report
from cli.simulate import simulate
from cli.status import status
from cli.sweep import sweep
from cli.switch import load, offload, proxy, unload
from cli.watch import watch
from cli.whatif import whatif


class _Commands(click.Group):
    """Click itself would say "Aborted!" and exit with 1."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo(interrupted(), err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, to stderr.")
def hotline(verbose: bool) -> None:
    """Hot sets and reports: choose hot sets, move them in and out of a switch, see what that does."""
    logging.basicConfig(
        format="%(levelname)s: %(message)s", level=logging.DEBUG if verbose else logging.WARNING
    )
    # What finsy logs with a stack trace also arrives here as an exception, and is told in one line.
    logging.getLogger("finsy").setLevel(logging.INFO if verbose else logging.CRITICAL + 1)


for command in (
    hotset, load, unload, follow, status, watch, registers, offload, proxy, logs, report, figures, compare,
    simulate,
    answer,
    sweep,
    fit,
    predict,
    policies,
    faults,
    whatif,
    overlap,
    layers,
    owed,
):  # fmt: skip
    hotline.add_command(command)
