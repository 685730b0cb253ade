"""The subcommand `softswitch net`: a network from a file, on this machine."""

from __future__ import annotations

import gc
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from softswitch.emulation.ending_signals import ended_by_signals
from softswitch.emulation.options import NetOptions
from softswitch.emulation.plan import check_interfaces_are_free, read_plan
from softswitch.emulation.switches import FIRST_GRPC_PORT, check_ports_are_free
from softswitch.errors import SwitchError
from softswitch.network.command import INTERRUPTED

_MAX_PORT = 65535
_INSTALL = (
    "install the distribution's package (`apt install mininet`); a virtual environment sees it if it was "
    "made with --system-site-packages, and Python 3.12 and later need setuptools"
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--sources",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder that is searched for P4 source first, as the solution's of an exercise.",
)
@click.option("--pingall", "pings_all", is_flag=True, help="Have all hosts ping each other, and end.")
@click.option(
    "--run",
    "runs",
    nargs=2,
    multiple=True,
    metavar="HOST COMMAND",
    help="Execute a shell command on a host, after the pings of --pingall, and end; repeat the option.",
)
@click.option("--json", "is_json", is_flag=True, help="Print pings and outputs of commands as JSON.")
@click.option(
    "--grpc-port",
    type=click.IntRange(1, _MAX_PORT),
    default=FIRST_GRPC_PORT,
    show_default=True,
    help="P4Runtime port of the first switch, on 127.0.0.1; the next switch has the next one.",
)
def net(**options: Any) -> None:  # the fields of `NetOptions`
    """Start the network of a topology.json (p4lang/tutorials) or p4app.json (p4-utils) on Mininet, as root.

    Without --pingall and --run it opens Mininet's command line. The exit status is 1 if a ping has no
    answer, or that of the first command that fails.
    """
    given = NetOptions(**options)
    if given.is_json and given.is_interactive:
        raise click.UsageError("--json goes with --pingall or --run")
    sys.exit(_run_network(given))


def _run_network(options: NetOptions) -> int:
    plan = read_plan(options.file, options.sources)
    try:
        for host, _ in options.runs:
            plan.host(host)  # which refuses others
        if os.geteuid() != 0:
            raise SwitchError("softswitch net: expected root, who may make network interfaces: use sudo")
        use = import_mininet("use")
        check_interfaces_are_free(plan)
        check_ports_are_free(plan, options.grpc_port)
        with ended_by_signals():
            status: int = use.use_network(plan, options)
            return status
    finally:
        plan.close()
        gc.freeze()  # the collection at the interpreter's end takes a second, and frees nothing that matters


def import_mininet(module: str) -> Any:  # a module
    """Import a module of this package that needs Mininet; raises `SwitchError` without it."""
    try:
        return import_module(f"softswitch.emulation.{module}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mininet", "distutils"):
            raise
        raise SwitchError(
            f"softswitch net needs Mininet, which cannot be imported ({error}): {_INSTALL}"
        ) from None


def main(arguments: list[str]) -> None:
    logging.basicConfig(format="softswitch: %(message)s", level=logging.WARNING)
    try:
        net.main(arguments, prog_name="softswitch net", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except (SwitchError, OSError) as error:
        sys.exit(f"softswitch: error: {error}")
