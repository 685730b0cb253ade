"""The end of a script waits for its pushes for as long as servers answer, however slow they are."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotline_scripts.kv.engine import Engine

LIMIT_S = 10.0


class Wait(NamedTuple):
    """What a wait of the engine finds: time that has passed, and what has happened at its end."""

    elapsed_s: float
    is_answered: bool
    is_paused: bool = False


class ScriptedCondition(AbstractContextManager["ScriptedCondition"]):
    """A condition whose waits pass a clock's time, and answer an engine's operations, as `waits` say."""

    def __init__(self, engine: Any, waits: list[Wait]) -> None:
        self.engine, self.waits, self.now_s = engine, list(waits), 0.0

    def __exit__(self, *_: object) -> None: ...

    def wait(self, timeout_s: float) -> None:
        elapsed_s, is_answered, is_paused = self.waits.pop(0) if self.waits else Wait(LIMIT_S, False)
        self.now_s += elapsed_s
        self.engine._answers += is_answered
        self.engine._done_count += is_answered
        self.engine._is_paused = is_paused


def flush(waits: list[Wait], operations: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many operations an engine has flushed."""
    engine: Any = Engine.__new__(Engine)  # without a socket and a thread
    engine._queue, engine._taken_count, engine._done_count = [], operations, 0
    engine._answers, engine._is_paused, engine._is_closing, engine._error = 0, False, False, None
    engine._condition = ScriptedCondition(engine, waits)
    monkeypatch.setattr(time, "monotonic", lambda: engine._condition.now_s)
    engine.flush(LIMIT_S)
    return int(engine._done_count)


WAITS = st.builds(Wait, st.floats(0, LIMIT_S * 0.7), st.booleans(), st.booleans())


@given(st.lists(WAITS, max_size=12))
def test_a_flush_ends_after_all_operations_or_without_an_answer_for_its_limit(waits: list[Wait]) -> None:
    """A plain model: time counts from the last answer, and not while the engine is paused."""
    operations = sum(wait.is_answered for wait in waits) + 1
    expected, silence_s, was_paused = 0, 0.0, False
    for elapsed_s, is_answered, is_paused in waits:
        silence_s = 0.0 if is_answered or was_paused else silence_s + elapsed_s
        expected, was_paused = expected + is_answered, is_paused
        if silence_s >= LIMIT_S:
            break
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert flush(waits, operations, monkeypatch) == expected


def test_a_flush_waits_for_a_slow_server_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [Wait(0.7 * LIMIT_S, is_answered=True)] * 5
    assert flush(waits, len(waits), monkeypatch) == len(waits)
