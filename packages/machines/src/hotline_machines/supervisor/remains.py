"""Find and remove by name what runs have made on a machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from hotline_machines.errors import MachinesError

NAMESPACE_PREFIX = "hotline-"
"""Prefix of the names of the network namespaces of a run."""
NAMESPACES = Path("/run/netns")
WORK_FOLDERS = Path("/var/tmp/hotline-machines")
"""Folder of the runs' folders on machines that do not see the run's own folder."""


def remove_namespaces() -> list[str]:
    """Remove the namespaces of runs with their interfaces; return their names."""
    names = sorted(path.name for path in NAMESPACES.glob(f"{NAMESPACE_PREFIX}*"))
    for name in names:
        run_command("ip", "netns", "delete", name)
    return names


def remove_interfaces(names: Iterable[str]) -> None:
    for name in names:
        # An interface disappears with the namespace of its other end, a moment later than that.
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)


def run_command(*command: str, text: str = "") -> str:
    """Return the output of a command; raise `MachinesError` with its error if it fails."""
    completed = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise MachinesError(f"`{' '.join(command)}` failed: {completed.stderr.strip()}")
    return completed.stdout
