"""Handle SIGINT, SIGTERM and SIGHUP at once, whatever the run is doing, and end the run within three seconds.

A thread handles the signals, since the main thread may be busy in a library; this module imports nothing that
takes time. The first signal cancels the run. If that takes too long, or a second signal comes, the process
exits by force: it removes what the next run would have to remove, and prints where the results so far are.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NoReturn

INTERRUPTED = 130
"""Exit code after an interruption."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CANCEL_TIMEOUT_S = 2.3  # of the three seconds, the rest is for cleaning up
_DUPLICATE_WINDOW_S = 0.5
"""Window for the same signal from sudo, which forwards the signal that the terminal has already sent."""
_SHOW_TIMEOUT_S = 0.2
_STDERR = 2
_SYNC_BYTE = 0  # byte that is no signal number: when it is read, all signals before it have been handled
_SHOW_CURSOR = "\x1b[?25h"


def _do_nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class SignalActions:
    """Reactions to signals in one stage of a run. Without `cancel` the process exits by force at once."""

    describe: Callable[[], str]
    cancel: Callable[[], None] | None = None
    clean_up: Callable[[], None] = _do_nothing


class Stop:
    """Ends the process after a signal; at first there is nothing to clean up."""

    def __init__(self) -> None:
        self.is_requested = False
        self.show: Callable[[str], None] = _write
        self._actions = SignalActions(describe=lambda: "nothing was run")
        self._is_command_line_active = False
        self._wakeup_writer: int | None = None
        self._sync_event = threading.Event()
        self._exit_lock = threading.Lock()
        """The thread that ends the process acquires it and never releases it."""

    def listen(self) -> None:
        """Handle signals from now on. Call it from the main thread."""
        wakeup_reader, self._wakeup_writer = os.pipe()
        os.set_blocking(self._wakeup_writer, False)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            # Under nohup SIGHUP stays ignored.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _wake_thread)
        threading.Thread(target=self._handle_signals, args=(wakeup_reader,), daemon=True).start()

    @contextmanager
    def on_signal(self, actions: SignalActions) -> Iterator[None]:
        previous = self._actions
        self._set_actions(actions)
        try:
            yield
        finally:
            self._set_actions(previous)

    @contextmanager
    def leave_ctrl_c_to_command_line(self) -> Iterator[None]:
        """Let Mininet's command line, which blocks the loop, handle Ctrl-C; others raise CancelledError."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _raise_cancelled)
        self._is_command_line_active = True
        try:
            with self.on_signal(replace(self._actions, cancel=_do_nothing)):
                yield
        finally:
            self._synchronise_with_thread()
            self._is_command_line_active = False
            for number in _SIGNALS:
                signal.signal(number, _wake_thread)

    def raise_if_requested(self) -> None:
        """Raise CancelledError if a signal has come; for code that blocks the event loop for long."""
        if self.is_requested:
            _raise_cancelled()

    def exit(self, code: int) -> NoReturn:
        """End the process; after a signal, do not wait for threads."""
        self._exit_lock.acquire()
        if self.is_requested:
            _exit_now(code)
        sys.exit(code)

    def _synchronise_with_thread(self) -> None:
        """Wait until the thread has seen all signals so far: a command line's Ctrl-C must not end the run."""
        if self._wakeup_writer is not None:
            self._sync_event.clear()
            os.write(self._wakeup_writer, bytes([_SYNC_BYTE]))
            self._sync_event.wait(_CANCEL_TIMEOUT_S)

    def _set_actions(self, actions: SignalActions) -> None:
        with self._exit_lock:
            self._actions = actions

    def _handle_signals(self, wakeup_reader: int) -> None:
        first_signal_s: float | None = None
        while True:
            timeout_s: float | None = None
            if first_signal_s is not None:
                timeout_s = max(0.0, first_signal_s + _CANCEL_TIMEOUT_S - time.monotonic())
            if not select.select([wakeup_reader], [], [], timeout_s)[0]:
                self._exit_by_force()  # returns if the main thread is ending the process
            number = os.read(wakeup_reader, 1)[0]
            if number == _SYNC_BYTE:
                self._sync_event.set()
            now_s = time.monotonic()
            is_for_run = number in _SIGNALS and not (self._is_command_line_active and number == signal.SIGINT)
            if not is_for_run or (
                first_signal_s is not None and now_s - first_signal_s < _DUPLICATE_WINDOW_S
            ):
                continue
            cancel = self._actions.cancel
            if first_signal_s is not None or cancel is None:
                self._exit_by_force()
                continue
            first_signal_s, self.is_requested = now_s, True
            show_thread = threading.Thread(target=self.show, args=("hotline: stopping …",), daemon=True)
            show_thread.start()
            show_thread.join(_SHOW_TIMEOUT_S)
            with suppress(RuntimeError):  # the loop has just ended
                cancel()

    def _exit_by_force(self) -> None:
        """Clean up and end the process from the signal thread, unless the main thread has begun to end it."""
        if not self._exit_lock.acquire(timeout=_CANCEL_TIMEOUT_S):
            return
        try:
            self._actions.clean_up()
        except Exception as error:
            _write(f"hotline: {error}")
        _write(f"hotline: interrupted; {self._actions.describe()}")
        _exit_now(INTERRUPTED)


def _write(line: str) -> None:
    prefix = f"\n{_SHOW_CURSOR}" if os.isatty(_STDERR) else ""
    with suppress(OSError):
        os.write(_STDERR, f"{prefix}{line}\n".encode())


def _exit_now(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _wake_thread(number: int, frame: object) -> None:
    """Do nothing: Python writes to the wake-up descriptor only for signals with a Python handler."""


def _raise_cancelled(*_: object) -> NoReturn:
    # Imported here, since importing asyncio would delay the first handler.
    from asyncio import CancelledError

    raise CancelledError


STOP = Stop()
