"""Shared parts of worker and PS processes: JSON lines on standard input and output, a dedicated CPU."""

from __future__ import annotations

import ctypes
import gc
import inspect
import json
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import pydantic

from foundation.errors import DiskFullError, HotlineError
from hosts.agent_config import AgentConfigError

log = logging.getLogger(__name__)
M = TypeVar("M", bound=pydantic.BaseModel)
Writing: TypeAlias = Callable[[Callable[[], None]], None]
"""A way to call a function that writes a file: `write_once` or `write_when_there_is_room`."""

_PR_SET_TIMERSLACK = 29  # Linux, <linux/prctl.h>
_TIMER_SLACK_NS = 1  # the minimum
_READ_BYTES = 1 << 16
_FULL_DISK_RETRY_S = 0.1  # interval in s between two attempts to write to a full disk


class Commands:
    """Command lines from standard input, read without blocking."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.closed = False  # whether standard input has ended, because its writer has exited
        self._buffer = b""

    def read(self) -> None:
        chunk = os.read(self.fd, _READ_BYTES)
        self.closed = not chunk
        self._buffer += chunk

    def next(self, word: str = "") -> str | None:
        """Remove and return the next complete line that contains `word`, or None."""
        *lines, incomplete_line = self._buffer.split(b"\n")
        for number, line in enumerate(lines):
            if word.encode() in line:
                self._buffer = b"\n".join([*lines[:number], *lines[number + 1 :], incomplete_line])
                return line.decode("utf-8", "replace")
        return None


class SignalPipe:
    """A pipe that is readable after a signal, for compiled loops: Python's handler runs once they return."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        for fd in (self.fd, self._write_fd):
            os.set_blocking(fd, False)
        self._previous_wakeup_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def drain(self) -> None:
        os.read(self.fd, _READ_BYTES)

    def close(self) -> None:
        signal.set_wakeup_fd(self._previous_wakeup_fd)
        os.close(self.fd)
        os.close(self._write_fd)


def print_json(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def execute(
    line: str, handlers: Mapping[str, Callable[..., dict[str, object]]], is_answered: bool = True
) -> None:
    """Run one command line, and print its answer or its error; without `is_answered` print only errors."""
    try:
        answer = _dispatch(line, handlers)
        if is_answered:
            print_json(ok=True, **answer)
    except (HotlineError, OSError) as error:
        print_json(error=str(error))


def _dispatch(line: str, handlers: Mapping[str, Callable[..., dict[str, object]]]) -> dict[str, object]:
    try:
        command = json.loads(line)
    except ValueError as error:
        raise AgentConfigError(f"expected a command as one line of JSON: {error}") from None
    if not isinstance(command, dict) or command.get("cmd") not in handlers:
        raise AgentConfigError(f"expected one of the commands {', '.join(handlers)}, got {line.strip()[:80]}")
    arguments: dict[str, object] = {name: value for name, value in command.items() if name != "cmd"}
    handler = handlers[command["cmd"]]
    try:
        inspect.signature(handler).bind(**arguments)
    except TypeError as error:
        raise AgentConfigError(f"command {command['cmd']}: {error}") from None
    return handler(**arguments)


def load_config(path: Path, model: type[M]) -> M:
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise AgentConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pydantic.ValidationError as error:
        first_error = error.errors()[0]
        setting = ".".join(map(str, first_error["loc"]))
        raise AgentConfigError(f"{path}: {setting}: {first_error['msg']}") from error


def prepare_process(cpu: int | None) -> None:
    """Pin the process to a CPU, make timers exact, and disable the garbage collector.

    Ctrl-C is ignored: the parent process handles it, and closes standard input. SIGTERM exits normally, so
    that logs are written.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    # The default slack lets a timed wait end 50 µs late, which would look like latency.
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0):
        log.warning("timer slack could not be set: %s", os.strerror(ctypes.get_errno()))
    gc.collect()
    gc.freeze()
    gc.disable()


def write_once(write: Callable[[], None]) -> None:
    write()


def write_when_there_is_room(write: Callable[[], None]) -> None:
    """Call `write`, which writes a file as a whole or not at all, until it finds room on the disk.

    Raises `DiskFullError` once the process that commands this agent has closed its standard input.
    """
    is_reported = False
    while True:
        try:
            return write()
        except DiskFullError as error:
            if _is_input_closed():
                raise
            if not is_reported:
                log.warning("%s: waiting until there is disk space", error)
            is_reported = True
            time.sleep(_FULL_DISK_RETRY_S)


def _is_input_closed() -> bool:
    """Return whether the other end of standard input is closed, although commands may remain unread."""
    poll = select.poll()
    poll.register(0, 0)  # reports only that it is closed
    return bool(poll.poll(0))


def run_queue_ns() -> int:
    """Return how long this process has waited for a CPU, in ns (/proc/self/schedstat); 0 if unknown."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0
