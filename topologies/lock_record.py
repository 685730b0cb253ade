"""The record of who holds the lock of runs, for commands that look at the run which goes on."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

LOCK = Path("/run/hotline.lock")


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


def find_holder(lock: Path = LOCK) -> LockRecord | None:
    """Return who holds the lock now; None if it is free."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return read_record(lock)
    return None


def find_running_folder(lock: Path = LOCK) -> Path | None:
    """Return the folder of the run or `hotline up` that goes on; None if there is none.

    `find_holder` holds the lock for a moment, for which a run could not begin; this only reads the file.
    """
    try:
        record = read_record(lock)
    except OSError:
        return None
    if record is None or record.run is None or not is_alive(record.pid):
        return None
    return Path(record.run)


def read_record(lock: Path) -> LockRecord | None:
    try:
        record, _length = json.JSONDecoder().raw_decode(lock.read_text())
        return LockRecord(**record)
    except (ValueError, TypeError):
        return None


def is_alive(process: int) -> bool:
    """Return whether any thread of a process exists: threads of a zombie may still hold its sockets."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return not status["State"].startswith("Z") or int(status["Threads"]) > 1
