"""Deliver the pushes of workers that are still open when their process ends, is terminated, or forks."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from multiprocessing.process import parent_process
from multiprocessing.util import Finalize
from types import FrameType
from typing import Protocol


class OpenWorker(Protocol):
    def end(self, error: BaseException | None) -> str | None:
        """Deliver pushes and leave, after a script's `error` if any; return a sentence if values are lost."""
        ...

    def abandon(self) -> None:
        """Release the file descriptors of the parent's worker in a forked process."""
        ...


_open_workers: list[OpenWorker] = []
_FINALIZE_PRIORITY = 100
"""Priority among multiprocessing's finalizers: before those that join its helper threads."""


def add(worker: OpenWorker, handles_sigterm: bool) -> None:
    """Register a worker that has joined; SIGTERM becomes `SystemExit` if it had its default action."""
    # Multiprocessing ends its processes by os._exit, after its finalizers.
    if not _open_workers and parent_process() is not None:
        Finalize(None, _end_workers, exitpriority=_FINALIZE_PRIORITY)
    _open_workers.append(worker)
    if handles_sigterm and _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _handle_sigterm)


def remove(worker: OpenWorker) -> None:
    """Unregister a worker that leaves. After the last worker SIGTERM has its default action again."""
    if worker in _open_workers:
        _open_workers.remove(worker)
    if not _open_workers and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _handle_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handle_sigterm(number: int, frame: FrameType | None) -> None:
    if _open_workers:
        sys.exit(128 + number)
    # No worker is open: the last worker was the parent's, or another thread has closed it.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _end_workers() -> None:
    """End all open workers. End the process with status 1 if values were lost and it would end with 0."""
    error: BaseException | None = getattr(sys, "last_value", None) or sys.exc_info()[1]
    messages = [message for worker in list(_open_workers) if (message := worker.end(error)) is not None]
    for message in messages:
        print(f"hotline: {message}", file=sys.stderr)
    if messages and (error is None or isinstance(error, SystemExit)):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(1)  # an exit function cannot change the status in any other way


def _abandon_workers() -> None:
    for worker in _open_workers:
        worker.abandon()
    _open_workers.clear()


atexit.register(_end_workers)
os.register_at_fork(after_in_child=_abandon_workers)
# Importing Polars installs a handler that restarts system calls, so Ctrl-C would not end a wait for a lock.
signal.siginterrupt(signal.SIGINT, True)
