"""The task of dask that starts a machine's supervisor, as a subprocess of dask's worker."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

from foundation.checkout import environment_with_checkout

UP = "what `hotline up` had made"
"""Name of all that `clean_machine` removes by ending `hotline up`."""
_SUPERVISOR, _CLEAN = "hotline_machines.supervisor", "hotline_machines.supervisor.clean"
_supervisors: list[subprocess.Popen[str]] = []
"""Supervisors of this process, which keep the pipes open that end them with it."""


class LaunchedSupervisor(NamedTuple):
    port: int
    folder: str
    """Folder of the run on its machine."""
    pid: int


def launch_supervisor(spec: str) -> LaunchedSupervisor | str:
    """Start a supervisor with a `SupervisorSpec` in JSON; return where it listens, or an error's message."""
    for ended in [each for each in _supervisors if each.poll() is not None]:
        _supervisors.remove(ended)
        _close(ended)
    process = subprocess.Popen(
        [sys.executable, "-m", _SUPERVISOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment_with_checkout(),
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(f"{spec}\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = ""
    reply: dict[str, Any] = json.loads(line) if line else {"error": f"it ended with code {process.wait()}"}
    if "error" in reply:
        process.wait()
        _close(process)
        return str(reply["error"])
    _supervisors.append(process)
    return LaunchedSupervisor(**reply)


def clean_machine(ended_by: str) -> list[str] | str:
    """Remove what a killed run has left, and end `hotline up` if the command `ended_by` is what ends it.

    Return the names of what was removed or ended, or an error's message.
    """
    completed = subprocess.run(
        [sys.executable, "-m", _CLEAN, ended_by],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment_with_checkout(),
    )
    try:
        reply: dict[str, Any] = json.loads(completed.stdout)
    except ValueError:
        return f"it ended with code {completed.returncode}: {completed.stderr.strip()}"
    return str(reply["error"]) if "error" in reply else list(reply["removed"])


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
