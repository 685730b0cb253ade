"""Deliver the pushes of workers that are still open when their process ends, is terminated, or forks.

A process in which a worker has lost pushes, or in which an operation's error was never raised, does not end
with status 0: an exit function can change the status only by ending the process itself (`os._exit`), so it
runs after all exit functions that were registered later, and flushes what those before it would have.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.process import parent_process
from multiprocessing.util import Finalize
from types import FrameType
from typing import Protocol

from foundation.errors import HotlineError


class OpenWorker(Protocol):
    def end(self, error: BaseException | None) -> list[BaseException]:
        """Deliver pushes and leave, after a script's `error` if any; return lost pushes and other errors."""
        ...

    def abandon(self) -> None:
        """Release the file descriptors of the parent's worker in a forked process."""
        ...


_open_workers: list[OpenWorker] = []
_losses: list[BaseException] = []
"""Errors of workers that have left, and lost pushes."""
_STATUS_MASK = 0xFF  # an exit status has 8 bits
_is_terminated = False
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


def remove(worker: OpenWorker, loss: BaseException | None = None) -> None:
    """Unregister a worker that has left; after a `loss` the process cannot end with status 0.

    After the last worker SIGTERM has its default action again.
    """
    global _is_terminated
    if worker in _open_workers:
        _open_workers.remove(worker)
    if loss is not None:
        _losses.append(loss)
    if not _open_workers:
        _is_terminated = False
    if not _open_workers and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _handle_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_terminated() -> bool:
    """Return whether SIGTERM, without a handler of the script, has come while the open workers were open."""
    return _is_terminated


def forget_losses() -> None:
    """Let the process end with status 0 although pushes were lost, as a test does that loses them."""
    _losses.clear()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handle_sigterm(number: int, frame: FrameType | None) -> None:
    global _is_terminated
    if _open_workers:
        _is_terminated = True
        sys.exit(128 + number)
    # No worker is open: the last worker was the parent's, or another thread has closed it.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _end_workers() -> None:
    """End all open workers, and the process if it must not end with status 0."""
    script_error = _script_error()
    errors = [error for worker in list(_open_workers) for error in _end_worker(worker, script_error)]
    errors = [*(loss for loss in _losses if loss not in errors), *errors]
    for error in errors:
        with suppress(OSError, ValueError):  # standard error is closed, or its reader has ended
            _print_error(error)
    if status := max(map(_status_of, errors), default=0):
        _exit(status, script_error)


def _script_error() -> BaseException | None:
    """Return the exception that ends the script, if any; it may be `SystemExit`, or None for it."""
    if parent_process() is not None:  # multiprocessing's finalizers run while the exception is handled
        return sys.exc_info()[1]
    return getattr(sys, "last_value", None) or sys.exc_info()[1]


def _end_worker(worker: OpenWorker, script_error: BaseException | None) -> list[BaseException]:
    try:
        return worker.end(script_error)
    except BaseException as error:  # after an exit function's error Python would end with status 0
        return [error]


def _status_of(error: BaseException) -> int:
    """Return the exit status that Python would end with after an error."""
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return (error.code or 0) & _STATUS_MASK
    return 1


def _print_error(error: BaseException) -> None:
    if isinstance(error, SystemExit):
        if _status_of(error) and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        return
    if isinstance(error, HotlineError):
        print(f"hotline: {error}", file=sys.stderr)
    if not isinstance(error, HotlineError) or error.__cause__ is not None:
        traceback.print_exception(error, file=sys.stderr)


def _exit(status: int, script_error: BaseException | None) -> None:
    is_child = parent_process() is not None
    if is_child and script_error is not None and not isinstance(script_error, SystemExit):
        return  # multiprocessing prints the error, and ends the process with status 1
    with suppress(OSError, ValueError):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # it is closed, its reader has ended, or None
            stream.flush()
    if isinstance(script_error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as Python ends after Ctrl-C
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


def _abandon_workers() -> None:
    global _is_terminated
    _is_terminated = False
    for worker in _open_workers:
        worker.abandon()
    _open_workers.clear()
    _losses.clear()


atexit.register(_end_workers)
os.register_at_fork(after_in_child=_abandon_workers)
