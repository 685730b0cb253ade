"""Allow one run at a time, and remove the remains of a killed run.

Every process that a run starts inherits the environment variable `MARK`, set to the runner's process id. A
marked process whose runner has ended remains of a killed run. The run's lock file names its interfaces and
folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from experiment.errors import PreflightError
from experiment.folder import finish_run_folder, is_unfinished
from softswitch.progress import IdleLimit, read_activity
from topologies.cpu_counters import restore_affinities

MARK = "HOTLINE_RUN"
LOCK = Path("/run/hotline.lock")
_KILL_TIMEOUT_S, _KILL_POLL_S = 10.0, 0.02


@dataclass(frozen=True, slots=True)
class RemovedRun:
    processes: int
    interfaces: tuple[str, ...]
    run: Path | None = None
    is_tidied: bool = False
    """Whether `run` had ended early, so that its logs had to be merged."""

    def __bool__(self) -> bool:
        return bool(self.processes or self.interfaces)


@dataclass(slots=True)
class LockRecord:
    """Contents of the lock file, which remain in it if the run is killed."""

    interfaces: Sequence[str] = ()
    run: str | None = None
    ended_by: str | None = None
    """Command that ends the holder of the lock; None if the holder ends by itself."""
    pid: int = field(default_factory=os.getpid)
    since: float = field(default_factory=time.monotonic)
    """Start of the run in s, on the monotonic clock, which all processes share."""

    def write(self, file: IO[bytes]) -> None:
        # A single call replaces the record. What then remains of a longer one is ignored, and removed.
        content = json.dumps(asdict(self)).encode()
        os.pwrite(file.fileno(), content, 0)
        file.truncate(len(content))

    def __str__(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self.since), 60)
        folder_phrase = f" in {self.run}" if self.run else ""
        return f"process {self.pid}{folder_phrase}, for {minutes} min {seconds} s"


class RunLock:
    def __init__(self, removed_run: RemovedRun, record: LockRecord, file: IO[bytes]) -> None:
        self.removed_run = removed_run
        self._record = record
        self._file = file

    def set_folder(self, run: Path) -> None:
        self._record.run = str(run)
        self._record.write(self._file)


@contextmanager
def hold_run_lock(
    interfaces: Sequence[str], lock: Path = LOCK, ended_by: str | None = None
) -> Iterator[RunLock]:
    """Hold the lock, clean up a killed run, mark processes; raise `PreflightError` if the lock is held.

    The file names the killed run until its folder is tidied, so that no interruption or full disk forgets it.
    """
    with open(os.open(lock, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_record(lock)
            if holder is not None and holder.ended_by is not None:
                raise PreflightError(
                    f"`hotline up` is running ({holder}); `{holder.ended_by}` ends it"
                ) from None
            raise PreflightError(
                f"a run is going on ({holder or lock}); only one can run at a time"
            ) from None
        killed_run = _read_record(lock) or LockRecord()
        removed_run = remove_killed_run(killed_run.interfaces, killed_run.run)
        # The folder of `hotline up` is emptied by the next one.
        if removed_run.run is not None and killed_run.ended_by is None:
            removed_run = replace(removed_run, is_tidied=finish_run_folder(removed_run.run))
        record = LockRecord(interfaces=list(interfaces), ended_by=ended_by)
        record.write(file)
        os.environ[MARK] = str(os.getpid())
        try:
            yield RunLock(removed_run, record, file)
        finally:
            del os.environ[MARK]
            if record.run is None or record.ended_by is not None or not is_unfinished(Path(record.run)):
                file.truncate(0)


def find_holder(lock: Path = LOCK) -> LockRecord | None:
    """Return who holds the lock now; None if it is free."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _read_record(lock)
    return None


def find_running_folder(lock: Path = LOCK) -> Path | None:
    """Return the folder of the run or `hotline up` that goes on; None if there is none.

    `find_holder` holds the lock for a moment, for which a run could not begin; this only reads the file.
    """
    try:
        record = _read_record(lock)
    except OSError:
        return None
    if record is None or record.run is None or not is_alive(record.pid):
        return None
    return Path(record.run)


def _read_record(lock: Path) -> LockRecord | None:
    try:
        record, _length = json.JSONDecoder().raw_decode(lock.read_text())
        return LockRecord(**record)
    except (ValueError, TypeError):
        return None


def remove_killed_run(interfaces: Sequence[str] = (), run: str | None = None) -> RemovedRun:
    """Kill marked processes until none remains, and delete the interfaces. The caller holds the lock."""
    processes = _kill_marked_processes()
    restore_affinities()
    # The kernel removes a namespace and its interfaces a moment after its last process ends. So an interface
    # may disappear at any time, and a deletion may fail.
    existing_interfaces = [name for name in interfaces if interface_exists(name)]
    for name in existing_interfaces:
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)
    return RemovedRun(
        processes, tuple(existing_interfaces), Path(run) if run and Path(run).is_dir() else None
    )


def find_marked_processes() -> list[int]:
    """Return the ids of marked processes, except this one and those in other PID namespaces (containers)."""
    mark_prefix = f"{MARK}=".encode()
    own_namespace = os.readlink("/proc/self/ns/pid")
    process_ids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            if os.readlink(entry / "ns" / "pid") != own_namespace:
                continue
        except OSError:
            continue
        if any(variable.startswith(mark_prefix) for variable in environment.split(b"\0")):
            process_ids.append(int(entry.name))
    return process_ids


def interface_exists(name: str) -> bool:
    return name in (existing for _, existing in socket.if_nameindex())


def _kill_marked_processes() -> int:
    limit = IdleLimit(_KILL_TIMEOUT_S)
    killed_processes: set[int] = set()
    while alive_processes := {
        process for process in killed_processes.union(find_marked_processes()) if is_alive(process)
    }:
        limit.look(map(read_activity, sorted(alive_processes)))
        if limit.is_exceeded:
            raise PreflightError(
                f"processes {', '.join(map(str, sorted(alive_processes)))} of a killed run do not end"
            )
        for process in alive_processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        killed_processes |= alive_processes
        time.sleep(_KILL_POLL_S)
    return len(killed_processes)


def is_alive(process: int) -> bool:
    """Return whether any thread of a process exists: threads of a zombie may still hold its sockets."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return not status["State"].startswith("Z") or int(status["Threads"]) > 1
