"""Ctrl-C and its like: heard at once wherever the run is, and over in three seconds.

A thread hears the signals, since the main thread may be deep in a library; this module imports nothing that
takes time. The first signal lets the run stop in order. What has not stopped in time, or when a second signal
comes, is left by force: what the next run would have to remove is removed here, and what is there is named.
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
"""Exit code."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_S = 2.3
_ECHO_S = 0.5
"""Sudo hands on what the terminal has sent already."""
_TELLING_S = 0.2
_STDERR = 2
_MARK = 0
"""No signal's number: what has come before it has been heard."""
_SHOW_CURSOR = "\x1b[?25h"


def _nothing() -> None:
    """There is nothing to do."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a signal means now. Without `cancel` there is nothing to stop in order."""

    words: Callable[[], str]
    """What is left, the last thing that is told."""
    cancel: Callable[[], None] | None = None
    clear: Callable[[], None] = _nothing
    """Removes by force what would outlive the process."""


class Stop:
    """How the process ends when it is told to; at first it has set up nothing."""

    def __init__(self) -> None:
        self.requested = False
        """A signal has come."""
        self.tell: Callable[[str], None] = _write
        """Shows a line, beside whatever else is on the terminal."""
        self._stage = Stage(words=lambda: "nothing was run")
        self._has_command_line = False
        self._wake: int | None = None
        self._is_heard = threading.Event()
        self._leaving = threading.Lock()
        """Held for good by the one way out that is taken."""

    def listen(self) -> None:
        """Hear signals from now on; to be called from the main thread."""
        heard, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in _ENDING:
            # nohup ignores SIGHUP, and means it.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _leave_it_to_the_thread)
        threading.Thread(target=self._hear, args=(heard,), daemon=True).start()

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Let a signal mean this for a while."""
        before = self._stage
        self._enter(stage)
        try:
            yield
        finally:
            self._enter(before)

    @contextmanager
    def for_a_command_line(self) -> Iterator[None]:
        """While a command line blocks the loop, Ctrl-C is its own; other signals raise CancelledError."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _cancel)
        self._has_command_line = True
        try:
            with self.stage(replace(self._stage, cancel=_nothing)):
                yield
        finally:
            self._catch_up()
            self._has_command_line = False
            for number in _ENDING:
                signal.signal(number, _leave_it_to_the_thread)

    def check(self) -> None:
        """Raise CancelledError when a signal has come; for what does not return to the loop for long."""
        if self.requested:
            _cancel()

    def exit(self, code: int) -> NoReturn:
        """End the process; threads that nobody waits for any more do not hold it up."""
        self._leaving.acquire()
        if self.requested:
            _leave(code)
        sys.exit(code)

    def _catch_up(self) -> None:
        """Let the thread hear what has come so far: a Ctrl-C of the command line is not the run's."""
        if self._wake is not None:
            self._is_heard.clear()
            os.write(self._wake, bytes([_MARK]))
            self._is_heard.wait(_PATIENCE_S)

    def _enter(self, stage: Stage) -> None:
        with self._leaving:
            self._stage = stage

    def _hear(self, heard: int) -> None:
        first: float | None = None
        while True:
            patience = None if first is None else max(0.0, first + _PATIENCE_S - time.monotonic())
            if not select.select([heard], [], [], patience)[0]:
                self._force()
            number = os.read(heard, 1)[0]
            if number == _MARK:
                self._is_heard.set()
            now = time.monotonic()
            is_ours = number in _ENDING and not (self._has_command_line and number == signal.SIGINT)
            if not is_ours or (first is not None and now - first < _ECHO_S):
                continue
            cancel = self._stage.cancel
            if first is not None or cancel is None:
                self._force()
                continue
            first, self.requested = now, True
            teller = threading.Thread(target=self.tell, args=("hotline: stopping …",), daemon=True)
            teller.start()
            teller.join(_TELLING_S)
            with suppress(RuntimeError):  # the loop has just ended
                cancel()

    def _force(self) -> None:
        """Leave without the main thread, which is kept from ending the process otherwise."""
        if not self._leaving.acquire(timeout=_PATIENCE_S):
            return
        try:
            self._stage.clear()
        except Exception as error:
            _write(f"hotline: {error}")
        _write(f"hotline: interrupted; {self._stage.words()}")
        _leave(INTERRUPTED)


def _write(line: str) -> None:
    start = f"\n{_SHOW_CURSOR}" if os.isatty(_STDERR) else ""
    with suppress(OSError):
        os.write(_STDERR, f"{start}{line}\n".encode())


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _leave_it_to_the_thread(number: int, frame: object) -> None:
    """Without a handler of Python's own the signal would not be passed on."""


def _cancel(*_: object) -> NoReturn:
    # Not at the top: what is heard before that has been imported is heard sooner.
    from asyncio import CancelledError

    raise CancelledError


STOP = Stop()
"""Of this process, as its signals are."""
