"""The command line `hotline`."""

from __future__ import annotations

import logging

import click

from controller.cli.hotset import hotset
from controller.cli.registers import registers
from controller.cli.status import status
from controller.cli.switch import load, offload, proxy, unload


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, to stderr.")
def main(verbose: bool) -> None:
    """Hot sets: build them from update logs, move them in and out of a switch, see what it does."""
    logging.basicConfig(
        format="%(levelname)s: %(message)s", level=logging.DEBUG if verbose else logging.WARNING
    )
    # What finsy logs with a stack trace also arrives here as an exception, and is told in one line.
    logging.getLogger("finsy").setLevel(logging.INFO if verbose else logging.CRITICAL + 1)


for command in (hotset, load, unload, status, registers, offload, proxy):
    main.add_command(command)
