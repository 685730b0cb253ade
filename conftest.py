"""Tests of the testbed."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
from collections.abc import Iterator
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest

from foundation.designs import recorded, registry

pytest_plugins = ["switch_harness.plugin"]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    names = signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def closed_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that a test closes its connections to SQLite: from 3.13 on, Python warns later, in any test."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    yield
    left = [connection for connection in opened if is_open(connection)]
    for connection in left:
        connection.close()
    assert not left, "expected the test to close its connections to SQLite"


@pytest.fixture(autouse=True)
def forgotten_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the designs of a test's runs and modules: those of others may have arms of equal names."""
    monkeypatch.setattr(recorded, "_remembered", {})
    monkeypatch.setattr(registry, "_external_designs", dict(registry._external_designs))


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Undo what commands that a test runs in this process set for logging: others look at what is logged."""
    loggers = [logging.getLogger(name) for name in (None, "softswitch", "finsy")]
    before = [(logger.level, logger.propagate, logger.disabled) for logger in loggers]
    yield
    for logger, (level, propagate, disabled) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled


@pytest.fixture(autouse=True)
def restored_signal_handlers() -> Iterator[None]:
    """Check that a test leaves Ctrl-C to Python; after `STOP.listen` later tests would not be interrupted."""
    before = signal.getsignal(signal.SIGINT)
    yield
    after = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert after is before, "expected the test to restore the handler of SIGINT"


@pytest.fixture(autouse=True)
def restored_log_handlers() -> Iterator[None]:
    """Check that a test leaves no log handler: it would write to a stream that pytest has closed by then."""
    root = logging.getLogger()
    before, level = set(root.handlers), root.level
    yield
    left = [each for each in root.handlers if each not in before and "pytest" not in type(each).__module__]
    for handler in left:
        root.removeHandler(handler)
    level_after = root.level
    root.setLevel(level)
    assert not left, f"expected the handlers of the root logger as before, got {left}"
    assert level_after == level, "expected the level of the root logger as before"


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False
