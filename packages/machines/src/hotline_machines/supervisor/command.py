from __future__ import annotations

import subprocess

from hotline_machines.errors import MachinesError


def run_command(*command: str, text: str = "") -> str:
    """Return the output of a command; raise `MachinesError` with its error if it fails."""
    completed = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise MachinesError(f"`{' '.join(command)}` failed: {completed.stderr.strip()}")
    return completed.stdout
