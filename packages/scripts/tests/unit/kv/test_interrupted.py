"""Calls of a worker that Ctrl-C interrupts, as in a notebook, and that are repeated."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from hotline_scripts.kv.calls import Operation
from hotline_scripts.kv.engine import InvalidCall
from hotline_scripts.kv.worker import Worker
from switch_harness.waiting import PATIENCE_S, wait_for
from tests.harness.loopback import RunningRendezvous

TABLES = {"a": (3, 1), "b": (2, 1)}
VALUES, STATES = np.arange(1, 4, dtype=np.float32), np.arange(7, 9, dtype=np.float32)


@pytest.fixture
def workers(running: RunningRendezvous) -> Iterator[tuple[Worker, Worker]]:
    with ExitStack() as stack:
        yield tuple(  # type: ignore[misc]  # mypy does not know the number
            stack.enter_context(Worker(TABLES, scale=1.0, connect=running.place, rank=rank))
            for rank in (0, 1)
        )


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def interrupt(call: Callable[[], object], has_begun: Callable[[], bool]) -> None:
    """Call in the main thread, and interrupt the call by SIGINT as soon as it has begun."""

    def press() -> None:
        wait_for(has_begun)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    thread.join()


def mute_servers(running: RunningRendezvous, is_mute: bool) -> None:
    for server in running.cluster.servers:
        server.mute = is_mute


def test_a_repeated_barrier_waits_for_the_other_worker(
    running: RunningRendezvous, workers: tuple[Worker, Worker], pool: ThreadPoolExecutor
) -> None:
    first, second = workers
    interrupt(first.barrier, lambda: running.waiting_ranks == [0])
    wait_for(lambda: running.waiting_ranks == [])
    alone = pool.submit(second.barrier)
    wait_for(lambda: running.waiting_ranks == [1])
    assert not alone.done()
    first.barrier()
    alone.result(PATIENCE_S)
    assert not first._connection._answers


def test_threads_of_one_worker_pass_the_barrier_with_the_other_worker(
    running: RunningRendezvous, workers: tuple[Worker, Worker], pool: ThreadPoolExecutor
) -> None:
    first, second = workers
    waiting = [pool.submit(first.barrier) for _ in range(2)]
    wait_for(lambda: running.waiting_ranks == [0, 0])
    assert not any(each.done() for each in waiting)
    second.barrier()
    for each in waiting:
        each.result(PATIENCE_S)


@pytest.mark.parametrize("is_repeated", [True, False])
def test_an_interrupted_init_sets_the_table_once(
    running: RunningRendezvous,
    workers: tuple[Worker, Worker],
    pool: ThreadPoolExecutor,
    is_repeated: bool,
) -> None:
    first, second = workers
    mute_servers(running, True)
    interrupt(lambda: first.init(VALUES, "a"), lambda: first._open_engine._submitted_count > 0)
    with pytest.raises(InvalidCall, match="same values"):
        first.init(VALUES + 1, "a")
    other = pool.submit(second.init, VALUES, "a")
    mute_servers(running, False)
    if is_repeated:
        assert first.init(VALUES, "a")
        with pytest.raises(InvalidCall):
            first.init(VALUES, "a")
    assert not other.result(PATIENCE_S)
    assert second.read("a")[:, 0].tolist() == VALUES.tolist()


def test_an_interrupted_wait_for_the_setter_of_a_table_is_repeated(
    running: RunningRendezvous, workers: tuple[Worker, Worker], pool: ThreadPoolExecutor
) -> None:
    setter, other = workers
    mute_servers(running, True)
    setting = pool.submit(setter.init, VALUES, "a")
    wait_for(lambda: setter._open_engine._submitted_count > 0)
    interrupt(lambda: other.init(VALUES, "a"), lambda: bool(other._connection._answers))
    mute_servers(running, False)
    assert (setting.result(PATIENCE_S), other.init(VALUES, "a")) == (True, False)


def test_an_interrupted_load_sets_each_table_once(
    running: RunningRendezvous, workers: tuple[Worker, Worker], tmp_path: Path
) -> None:
    first, _ = workers
    np.savez(tmp_path / "archive.npz", a=VALUES[:, np.newaxis], b=STATES[:, np.newaxis])
    last, engine = threading.Event(), first._open_engine
    submit = engine.submit

    def submit_then_mute(operation: Operation) -> int:
        if operation.table.name == "b":
            mute_servers(running, True)
            last.set()
        return submit(operation)

    engine.submit = submit_then_mute  # type: ignore[method-assign]  # for the load alone
    interrupt(lambda: first.load(tmp_path / "archive.npz"), last.is_set)
    engine.submit = submit  # type: ignore[method-assign]  # as above
    mute_servers(running, False)
    assert first.load(tmp_path / "archive.npz")
    assert first.read("a")[:, 0].tolist() == VALUES.tolist()
    assert first.read("b")[:, 0].tolist() == STATES.tolist()
    with pytest.raises(InvalidCall):
        first.load(tmp_path / "archive.npz")
