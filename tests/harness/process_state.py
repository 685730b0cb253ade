"""State of a process that each test leaves as it was: connections, registries, log and signal handlers.

Each check is a context manager. One fixture enters all of them, because every test pays for each fixture.
"""

from __future__ import annotations

import logging
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from foundation.designs import recorded, registry

_CHANGED_BY_COMMANDS = (None, "softswitch", "finsy")


@contextmanager
def unchanged_process() -> Iterator[None]:
    with (
        closed_connections(),
        forgotten_designs(),
        no_log_handlers(),
        restored_logging(),
        restored_signal_handler(),
    ):
        yield


@contextmanager
def closed_connections() -> Iterator[None]:
    """Check that all connections to SQLite are closed: from 3.13 on, Python warns later, in any test."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sqlite3, "connect", record)
            yield
    finally:
        left = [connection for connection in opened if _is_open(connection)]
        for connection in left:
            connection.close()
    assert not left, "expected the test to close its connections to SQLite"


@contextmanager
def forgotten_designs() -> Iterator[None]:
    """Forget the designs of runs and modules: those of others may have arms of equal names."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recorded, "_remembered", {})
        patched.setattr(registry, "_external_designs", dict(registry._external_designs))
        yield


@contextmanager
def restored_logging() -> Iterator[None]:
    """Undo what commands that a test runs in this process set for logging: others look at what is logged."""
    loggers = [logging.getLogger(name) for name in _CHANGED_BY_COMMANDS]
    before = [(logger.level, logger.propagate, logger.disabled) for logger in loggers]
    try:
        yield
    finally:
        for logger, (level, propagate, disabled) in zip(loggers, before, strict=True):
            if logger.level != level:
                logger.setLevel(level)
            logger.propagate, logger.disabled = propagate, disabled


@contextmanager
def restored_signal_handler() -> Iterator[None]:
    """Check that Ctrl-C is left to Python; after `STOP.listen` later tests would not be interrupted."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        after = signal.getsignal(signal.SIGINT)
        if after is not before:
            signal.signal(signal.SIGINT, before)
    assert after is before, "expected the test to restore the handler of SIGINT"


@contextmanager
def no_log_handlers() -> Iterator[None]:
    """Check that no log handler is left: it would write to a stream that pytest has closed by then."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        yield
    finally:
        added = [each for each in root.handlers if each not in before]
        left = [each for each in added if "pytest" not in type(each).__module__]
        for handler in left:
            root.removeHandler(handler)
    assert not left, f"expected the handlers of the root logger as before, got {left}"


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False
