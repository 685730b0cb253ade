"""Allow one run at a time, and remove the remains of a killed run.

Every process that a run starts inherits the environment variable `MARK`, set to the runner's process id. A
marked process whose runner has ended remains of a killed run. The run's lock file names its interfaces and
folder.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from experiment.errors import PreflightError
from experiment.folder import finish_run_folder, is_unfinished
from softswitch.progress import IdleLimit, read_activity
from topologies.cpu_counters import restore_affinities
from topologies.lock_record import LOCK, LockRecord, is_alive, read_record

MARK = "HOTLINE_RUN"
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
            holder = read_record(lock)
            if holder is not None and holder.ended_by is not None:
                raise PreflightError(
                    f"`hotline up` is running ({holder}); `{holder.ended_by}` ends it"
                ) from None
            raise PreflightError(
                f"a run is going on ({holder or lock}); only one can run at a time"
            ) from None
        killed_run = read_record(lock) or LockRecord()
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
