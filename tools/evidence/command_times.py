"""`python -m tools.evidence.command_times [--clone FOLDER] COMMAND...`: time the commands that a page names.

They run one after another in this checkout, or in a new clone of its last commit, which has no `.venv` and no
compiled code. Printed is JSON: the usage of each command; what the commands print goes to stderr.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click

from foundation.checkout import ROOT
from foundation.settings import Strict
from tools.evidence.result import EvidenceError


class Usage(Strict):
    seconds: float
    cpu_s: float
    """CPU time of the command and of all processes that it has waited for."""
    peak_bytes: int
    """The most memory that one of these processes had; until it begins, it has that of this process."""


_OF_THIS_PROCESS = ("PYTHONPATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS")
"""Variables that a command has not when a user types it: the checkout's path, and settings of `make`."""


def usage_of(command: str, folder: Path) -> Usage:
    """Run a command of a shell in a folder; raises `EvidenceError` if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_THIS_PROCESS}
    begin = time.monotonic()
    process = subprocess.Popen(command, shell=True, cwd=folder, env=environment, stdout=sys.stderr)
    _, status, used = os.wait4(process.pid, 0)
    seconds, process.returncode = time.monotonic() - begin, os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise EvidenceError(f"{command}: expected exit status 0, found {process.returncode}")
    return Usage(seconds=seconds, cpu_s=used.ru_utime + used.ru_stime, peak_bytes=used.ru_maxrss * 1024)


def clone_checkout(folder: Path) -> None:
    """Clone the last commit into a folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    safe = ["-c", f"safe.directory={ROOT}/.git"]
    subprocess.run(["git", *safe, "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)


@click.command()
@click.option("--clone", "clone", type=click.Path(path_type=Path), help="Where to make a clone to run in.")
@click.argument("commands", nargs=-1, required=True)
def main(clone: Path | None, commands: tuple[str, ...]) -> None:
    """Run COMMANDS, and print the time and memory that each took."""
    if clone is not None:
        clone_checkout(clone)
    usages = {command: usage_of(command, clone or ROOT) for command in commands}
    click.echo(json.dumps({command: usage.model_dump() for command, usage in usages.items()}))


if __name__ == "__main__":
    try:
        main()
    except EvidenceError as error:
        raise SystemExit(str(error)) from None
