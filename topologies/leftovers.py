"""What a killed run leaves behind, and how it is told from what is not ours.

Every process that a run starts inherits the environment variable `MARK`, set to the runner's identity, so a
process belongs to a dead run exactly when it has the mark and that runner is gone. The names of the
interfaces are in the lock file of the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from topologies.errors import PreflightError

MARK = "HOTLINE_RUN"
LOCK = Path("/run/hotline.lock")
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What was removed."""

    processes: int
    interfaces: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.processes or self.interfaces)


@contextmanager
def only_run(interfaces: Sequence[str], lock: Path = LOCK) -> Iterator[Leftovers]:
    """Be the only run on this machine, mark all processes started from here, and name its interfaces.

    Yields what a killed run had left, which has been removed. Raises PreflightError when a run is going on.
    """
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PreflightError(f"a run is going on ({lock} is held); one at a time") from None
        found = _remove(_named_interfaces(file.name))
        file.truncate(0)
        file.write(json.dumps({"interfaces": list(interfaces)}))
        file.flush()
        os.environ[MARK] = str(os.getpid())
        try:
            yield found
        finally:
            del os.environ[MARK]
            file.truncate(0)


def _named_interfaces(lock: str) -> list[str]:
    text = Path(lock).read_text()
    names: list[str] = json.loads(text)["interfaces"] if text else []
    return names


def _remove(interfaces: Sequence[str]) -> Leftovers:
    """Kill the processes of dead runs and delete interfaces. To be called with the lock held."""
    processes = marked_processes()
    for process in processes:
        _kill(process)
    _wait_until_gone(processes)
    # A namespace goes with its last process, and takes its ends of the veth pairs along, a moment later.
    present = [name for name in interfaces if interface_exists(name)]
    for name in present:
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)
    return Leftovers(len(processes), tuple(present))


def marked_processes() -> list[int]:
    """Processes, except this one, that some run has started."""
    mark = f"{MARK}=".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if any(variable.startswith(mark) for variable in environment.split(b"\0")):
            found.append(int(entry.name))
    return found


def interface_exists(name: str) -> bool:
    """Whether the root namespace has this interface."""
    return Path("/sys/class/net", name).exists()


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _wait_until_gone(processes: Sequence[int]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while any(_alive(process) for process in processes):
        if time.monotonic() > deadline:
            raise PreflightError(f"processes {', '.join(map(str, processes))} of a killed run do not end")
        time.sleep(0.02)


def _alive(process: int) -> bool:
    """Whether a process runs; a zombie only waits for its parent."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
