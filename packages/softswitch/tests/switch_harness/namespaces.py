"""Namespaces for the processes of tests: each has a machine of its own as far as a run can tell.

A run of the main job is one at a time on a machine: names of its interfaces, the lock in /run, what it finds
of a killed run's processes. Processes of tests that have these for themselves make runs beside each other.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

OWN_NAMESPACES = Path(__file__).with_name("own-namespaces")
_MACHINE = Path("/run/netns/machine")


def is_namespaced() -> bool:
    return _MACHINE.exists()


def namespaced_python() -> str | None:
    """Return the command of a Python in separate namespaces; None if they cannot be made."""
    if os.geteuid() != 0 or subprocess.run([OWN_NAMESPACES, "true"], capture_output=True).returncode != 0:
        return None
    return shlex.join([str(OWN_NAMESPACES), sys.executable])


def on_the_machines_network() -> list[str]:
    """Return the prefix of a command that needs the machine's network, to install something."""
    return ["nsenter", f"--net={_MACHINE}"] if is_namespaced() else []
