"""Find and remove by name what runs have made on a machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from hotline_machines.supervisor.cables import return_cables
from hotline_machines.supervisor.command import run_command
from topologies import routes

NAMESPACE_PREFIX = "hotline-"
"""Prefix of the names of the network namespaces of a run."""
NAMESPACES = Path("/run/netns")
WORK_FOLDERS = Path("/var/tmp/hotline-machines")
"""Folder of the runs' folders on machines that do not see the run's own folder."""


def remove_namespaces() -> list[str]:
    """Remove the namespaces of runs with their interfaces, except cables'; return their names."""
    names = sorted(path.name for path in NAMESPACES.glob(f"{NAMESPACE_PREFIX}*"))
    for name in names:
        return_cables(name)
        run_command("ip", "netns", "delete", name)
    return names


def remove_interfaces(names: Iterable[str]) -> None:
    """Remove interfaces outside of the runs' namespaces, and the routes of workers' addresses."""
    routes.remove()
    for name in names:
        # An interface disappears with the namespace of its other end, a moment later than that.
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)
