"""Errors of operations and of the threads of a worker: which call raises them; no call waits for ever."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotline
from hotline_scripts.kv import calls
from hotline_scripts.kv import engine as engine_module
from hotline_scripts.kv.connection import ClusterLost
from hotline_scripts.kv.engine import InvalidCall
from hotline_scripts.kv.failures import NotDelivered, OperationErrors, OperationFailed, WorkerFailed
from switch_harness.waiting import wait_for
from switch_harness.wording import mentions
from tests.harness.loopback import RunningRendezvous, running_rendezvous

F32 = np.float32
ONES = np.ones(2, F32)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningRendezvous]:
    with running_rendezvous(tmp_path, size=1) as running:
        yield running


@pytest.fixture
def kv(running: RunningRendezvous) -> Iterator[hotline.Worker]:
    worker = hotline.Worker({"rows": (4, 1)}, scale=1.0, connect=running.place)
    yield worker
    with suppress(NotDelivered):
        worker._leave(is_orderly=False)


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


REPORTING: dict[str, Callable[[hotline.Worker], object]] = {
    "wait(last)": lambda kv: kv.wait(4),
    "barrier": hotline.Worker.barrier,
    "close": hotline.Worker.close,
    "with": lambda kv: kv.__exit__(None, None, None),
    "read": hotline.Worker.read,
}
"""Calls that wait for all operations."""


@pytest.mark.parametrize("call", REPORTING)
@pytest.mark.parametrize("failed", [[1], [1, 3], [0, 1, 2, 3, 4]])
def test_the_next_call_that_waits_raises_the_errors_of_callbacks_once(
    kv: hotline.Worker, running: RunningRendezvous, call: str, failed: list[int]
) -> None:
    errors = {number: LookupError(f"of {number}") for number in failed}
    for number in range(5):
        kv.push([0, 1], ONES, callback=failing(errors[number]) if number in failed else None)
    with pytest.raises((LookupError, OperationErrors)) as raised:
        REPORTING[call](kv)
    if len(failed) == 1:
        assert raised.value is errors[1]
    else:
        assert isinstance(raised.value, OperationErrors)
        assert raised.value.errors == errors and raised.value.__cause__ is errors[failed[0]]
        assert f"{len(failed)} operations" in str(raised.value) and f"of {failed[0]}" in str(raised.value)
    kv.close()  # the errors have been raised
    wait_for(lambda: running.is_idle)
    assert running.cluster.values().tolist() == [5, 5, 0, 0]
    [joined] = running.joined_workers
    assert not joined.is_lost


def test_a_wait_raises_no_errors_of_later_operations(kv: hotline.Worker) -> None:
    for number in range(4):
        kv.push([0, 1], ONES, callback=failing(LookupError(f"of {number}")) if number in (1, 3) else None)
    kv.wait(0)
    with pytest.raises(LookupError, match="of 1"):
        kv.wait(2)
    kv.wait(1)
    with pytest.raises(LookupError, match="of 3"):
        kv.close()


def test_values_that_cannot_be_stored_are_an_error_of_their_pull(
    kv: hotline.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The callback, for which they would be there, is not called; later operations are executed."""
    out, called = np.zeros(2, F32), list[int]()
    monkeypatch.setattr(calls, "from_fixed", failing_operate())
    kv.push([0], np.ones(1, F32))
    kv.pull([0, 1], out, callback=lambda: called.append(1))
    with pytest.raises(OperationFailed, match=mentions(1, "operation")):
        kv.wait(kv.push([1], np.ones(1, F32)))
    monkeypatch.undo()
    assert not called and kv.read().ravel().tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("call", [*REPORTING, "push", "pull"])
def test_an_error_in_an_operation_fails_the_worker_and_each_waiter(
    kv: hotline.Worker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(engine_module, "operate", failing_operate())
    for _ in range(5):
        with suppress(WorkerFailed):  # the thread may have ended already
            kv.push([0, 1], ONES)
    wait_for(lambda: kv._open_engine.has_failed)
    callers: dict[str, Callable[[hotline.Worker], object]] = {
        **REPORTING,
        "wait(last)": lambda kv: kv.wait(0),
        "push": lambda kv: kv.push([0, 1], ONES),
        "pull": lambda kv: kv.pull([0, 1], ONES),
    }
    with pytest.raises(WorkerFailed, match=mentions(0, "operation")) as raised:
        callers[call](kv)
    assert isinstance(raised.value.__cause__, MemoryError)


def failing_operate() -> Callable[..., int]:
    def fail(*arguments: Any, **more: Any) -> int:
        raise MemoryError("planted")

    return fail


def test_close_verifies_that_every_push_was_acknowledged(
    kv: hotline.Worker, running: RunningRendezvous, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine takes a push for done whose answers set no flags."""
    kv.push([0, 1], ONES)
    kv.barrier()
    monkeypatch.setattr(kv._open_engine.client, "push", lambda *arguments: None)
    kv.push([0, 1, 2], np.ones(3, F32))
    with pytest.raises(NotDelivered, match=mentions("worker 0", 3)):
        kv.close()
    wait_for(lambda: running.is_idle)
    assert running.cluster.values().tolist() == [1, 1, 0, 0]
    [joined] = running.joined_workers
    assert joined.is_lost


def test_pushes_by_callbacks_are_delivered_before_a_worker_leaves(
    kv: hotline.Worker, running: RunningRendezvous
) -> None:
    remaining = 20

    def push_again() -> None:
        nonlocal remaining
        remaining -= 1
        kv.push([0, 1], ONES, callback=push_again if remaining else None)

    kv.push([0, 1], ONES, callback=push_again)
    kv.close()
    wait_for(lambda: running.is_idle)
    assert running.cluster.values().tolist() == [21, 21, 0, 0]


@pytest.mark.parametrize("call", [name for name in REPORTING if name != "wait(last)"])
def test_a_callback_that_waits_gets_an_error_and_loses_nothing(
    kv: hotline.Worker, running: RunningRendezvous, call: str
) -> None:
    kv.push([0, 1], ONES, callback=lambda: REPORTING[call](kv))
    kv.push([0, 1], ONES)
    with pytest.raises(InvalidCall, match="a callback"):
        kv.close()
    wait_for(lambda: running.is_idle)
    assert running.cluster.values()[0] == 2


def test_an_error_in_the_connection_s_thread_ends_all_waits(
    kv: hotline.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv._connection, "_dispatch", failing_operate())
    monkeypatch.setattr("threading.excepthook", lambda arguments: None)
    with pytest.raises(ClusterLost, match="rendezvous"):
        kv.barrier()
    with pytest.raises(ClusterLost, match="rendezvous"):
        kv.push([0, 1], ONES)


def test_an_error_in_a_command_of_a_run_is_its_answer(
    running: RunningRendezvous, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.cluster.parts = str(tmp_path)
    kv = hotline.Worker({"rows": (4, 1)}, scale=1.0, connect=running.place)
    recorder = kv._open_engine.recorder
    assert recorder is not None
    monkeypatch.setattr(recorder, "begin_block", failing_operate())
    [joined] = running.joined_workers
    block = {"start_ns": 0, "round": 1, "load": 0.0, "discard_ns": 0, "discard_steps": 0}
    answer = running.send_command(joined, "begin_block", **block)
    assert answer == {"error": "begin_block: MemoryError: planted"}
    assert running.send_command(joined, "end_block") == {}
    kv._leave(is_orderly=False)


def test_messages_name_at_most_five_operations() -> None:
    shown = str(OperationErrors({number: LookupError() for number in range(9)}))
    assert re.search(r"\b9 operations\b.*0, 1, 2, 3, 4, …; the first is LookupError$", shown)
