"""What a test leaves in its process is an error of that test, or is undone."""

from __future__ import annotations

import logging
import signal
import sqlite3
from collections.abc import Callable

import pytest

from foundation.designs import recorded, registry
from foundation.designs.none import DESIGN
from foundation.designs.recorded import RecordedDesign
from tests.harness.process_state import unchanged_process

ROOT_LOGGER = logging.getLogger()


def state() -> tuple[object, ...]:
    loggers = ROOT_LOGGER, logging.getLogger("finsy")
    levels = [(each.level, each.propagate, each.disabled) for each in loggers]
    designs = dict(recorded._remembered), dict(registry._external_designs)
    return list(ROOT_LOGGER.handlers), levels, signal.getsignal(signal.SIGINT), designs, sqlite3.connect


def leave_a_handler() -> None:
    ROOT_LOGGER.addHandler(logging.StreamHandler())


def leave_ctrl_c_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


LEFT: list[sqlite3.Connection] = []


def leave_a_connection() -> None:
    LEFT.append(sqlite3.connect(":memory:"))


@pytest.mark.parametrize(
    ("leave", "message"),
    [
        (leave_a_connection, "connections to SQLite"),
        (leave_a_handler, "handlers of the root logger"),
        (leave_ctrl_c_ignored, "handler of SIGINT"),
    ],
)
def test_state_that_a_test_leaves_is_an_error_and_is_undone(leave: Callable[[], None], message: str) -> None:
    before = state()
    with pytest.raises(AssertionError, match=message), unchanged_process():
        leave()
    assert state() == before


def test_a_connection_that_is_left_is_closed() -> None:
    with pytest.raises(AssertionError), unchanged_process():
        leave_a_connection()
    with pytest.raises(sqlite3.ProgrammingError):
        LEFT.pop().execute("select 1")


def test_several_kinds_of_state_that_a_test_leaves_are_undone() -> None:
    before = state()
    with pytest.raises(AssertionError), unchanged_process():
        leave_a_handler()
        leave_a_connection()
        leave_ctrl_c_ignored()
    assert state() == before


def test_state_that_commands_and_runs_set_is_undone() -> None:
    before = state()
    with unchanged_process():
        logging.getLogger("finsy").disabled = True
        logging.getLogger("finsy").propagate = False
        ROOT_LOGGER.setLevel(logging.DEBUG)
        recorded.remember(RecordedDesign.of(DESIGN))
        registry._external_designs["a.module"] = DESIGN
        sqlite3.connect(":memory:").close()
        assert state() != before
    assert state() == before
