"""The commands of `hotline`."""

from __future__ import annotations

import logging
from typing import Any

import click

from hotline.cli.answer import answer
from hotline.cli.faults import faults
from hotline.cli.follow import follow
from hotline.cli.hotset import hotset
from hotline.cli.interruption import INTERRUPTED, interrupted
from hotline.cli.layers import layers
from hotline.cli.logs import logs
from hotline.cli.overlap import overlap
from hotline.cli.owed import owed
from hotline.cli.policies import policies
from hotline.cli.predict import fit, predict
from hotline.cli.registers import registers
from hotline.cli.report import compare, figures, report
from hotline.cli.run import run
from hotline.cli.simulate import simulate
from hotline.cli.status import status
from hotline.cli.sweep import sweep
from hotline.cli.switch import load, offload, proxy, unload
from hotline.cli.watch import watch
from hotline.cli.whatif import whatif


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
    run,
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
