"""`make` as a user calls it, although `make` may run the tests."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

from foundation.checkout import ROOT


def outer_environment() -> dict[str, str]:
    """Return the environment without the variables by which a `make` gives its own (`ARGS=`) to others."""
    given = re.findall(r"(\w+)=", os.environ.get("MAKEFLAGS", ""))  # make exports each of them, too
    inner = {"MAKEFLAGS", "MAKEOVERRIDES", *given}
    return {name: value for name, value in os.environ.items() if name not in inner}


def planned_commands(*arguments: str, **environment: str) -> list[list[str]]:
    """Return the words of each command that `make` would run."""
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=outer_environment() | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return [shlex.split(line) for line in done.stdout.splitlines()]
