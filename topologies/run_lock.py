"""One run at a time, what a killed run leaves behind, and how it is told from what is not ours.

Every process that a run starts inherits the environment variable `MARK`, set to the runner's identity, so a
process belongs to a dead run exactly when it has the mark and that runner is gone. The names of the
interfaces and of the run folder are in the lock file of the run.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from experiment.errors import PreflightError
from topologies.isolation import give_back

MARK = "HOTLINE_RUN"
LOCK = Path("/run/hotline.lock")
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a killed run has left. Processes and interfaces have been removed; the folder is as it was."""

    processes: int
    interfaces: tuple[str, ...]
    run: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.processes or self.interfaces)


@dataclass(slots=True)
class Claim:
    """What is in the lock file while its run goes on, and afterwards if it was killed."""

    interfaces: Sequence[str] = ()
    run: str | None = None
    pid: int = field(default_factory=os.getpid)
    since: float = field(default_factory=time.time)
    """Unix time."""

    def write(self, file: IO[str]) -> None:
        """Replace what is in the lock file."""
        file.truncate(0)
        file.write(json.dumps(asdict(self)))
        file.flush()

    def __str__(self) -> str:
        minutes, seconds = divmod(int(time.time() - self.since), 60)
        where = f" in {self.run}" if self.run else ""
        return f"process {self.pid}{where}, for {minutes} min {seconds} s"


class OnlyRun:
    """The only run on this machine."""

    def __init__(self, found: Leftovers, claim: Claim, file: IO[str]) -> None:
        self.found = found
        self._claim = claim
        self._file = file

    def name(self, run: Path) -> None:
        """Say which folder the run has, to others who would run and to who tidies up if this is killed."""
        self._claim.run = str(run)
        self._claim.write(self._file)


@contextmanager
def hold_run_lock(interfaces: Sequence[str], lock: Path = LOCK) -> Iterator[OnlyRun]:
    """Be the only run on this machine, mark all processes started from here, and name its interfaces.

    What a killed run has left is removed first. Raises PreflightError when a run is going on.
    """
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PreflightError(f"a run is going on ({_read(lock) or lock}); one at a time") from None
        killed = _read(lock)
        found = remove(killed.interfaces, killed.run) if killed else remove()
        claim = Claim(interfaces=list(interfaces))
        claim.write(file)
        os.environ[MARK] = str(os.getpid())
        try:
            yield OnlyRun(found, claim, file)
        finally:
            del os.environ[MARK]
            file.truncate(0)


def _read(lock: Path) -> Claim | None:
    """The claim of who holds the lock, or held it and was killed; None where there is none to be read."""
    try:
        return Claim(**json.loads(lock.read_text()))
    except (ValueError, TypeError):
        return None


def remove(interfaces: Sequence[str] = (), run: str | None = None) -> Leftovers:
    """Kill all marked processes, delete interfaces, and wait until they have gone. Hold the lock."""
    processes = _end_marked()
    give_back()
    # A namespace goes with its last process, and takes its ends of the veth pairs along, a moment later.
    present = [name for name in interfaces if interface_exists(name)]
    for name in present:
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)
    return Leftovers(processes, tuple(present), Path(run) if run and Path(run).is_dir() else None)


def marked_processes() -> list[int]:
    """Processes, except this one, that some run has started; those of a container are its own affair."""
    mark = f"{MARK}=".encode()
    here = os.readlink("/proc/self/ns/pid")
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            if os.readlink(entry / "ns" / "pid") != here:
                continue
        except OSError:
            continue
        if any(variable.startswith(mark) for variable in environment.split(b"\0")):
            found.append(int(entry.name))
    return found


def interface_exists(name: str) -> bool:
    """Whether the root namespace has this interface."""
    return Path("/sys/class/net", name).exists()


def _end_marked() -> int:
    """Kill until nothing is left, also what was just being started; the number of processes."""
    deadline = time.monotonic() + _PATIENCE_S
    ended: set[int] = set()
    while alive := {process for process in ended.union(marked_processes()) if is_alive(process)}:
        if time.monotonic() > deadline:
            raise PreflightError(f"processes {', '.join(map(str, sorted(alive)))} of a killed run do not end")
        for process in alive:
            _kill(process)
        ended |= alive
        time.sleep(0.02)
    return len(ended)


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def is_alive(process: int) -> bool:
    """Whether any thread of a process is there: a zombie's others may still hold its sockets."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return not status["State"].startswith("Z") or int(status["Threads"]) > 1
