"""Workers that die, and workers that take their places: nothing is added twice, and nobody waits in vain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hotline
from experiment.worker_plan import AfterDeath
from foundation.errors import HotlineError
from hotline_scripts.kv.calls import Operation
from hotline_scripts.kv.connection import ClusterLost, NotConnected
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says
from tests.harness.loopback import RunningRendezvous, running_rendezvous

ROWS = 8
KEYS, ONES = np.arange(ROWS), np.ones(ROWS, np.float32)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningRendezvous]:
    with running_rendezvous(tmp_path, size=2) as running:
        yield running
        for kv in JOINED:
            kv._leave(is_orderly=False)
        JOINED.clear()


JOINED: list[hotline.Worker] = []


def join(running: RunningRendezvous, rank: int | None = None) -> hotline.Worker:
    """Return a worker, which ends with the test if the test does not close it."""
    JOINED.append(hotline.Worker({"rows": (ROWS, 1)}, scale=1.0, connect=running.place, rank=rank))
    return JOINED[-1]


def die(kv: hotline.Worker) -> None:
    """End a worker without a word to the rendezvous, which then sees what it sees of a killed process."""
    kv._leave(is_orderly=False)


def set_mode(running: RunningRendezvous, mode: AfterDeath) -> None:
    running.cluster.after_death = mode


def test_a_successor_trains_on_with_the_pushes_of_the_dead_worker(running: RunningRendezvous) -> None:
    set_mode(running, "wait")
    first, second = join(running, 0), join(running, 1)
    first.wait(first.push(KEYS, ONES))
    second.wait(second.push(KEYS, 10 * ONES))
    die(second)
    wait_for(lambda: running.rendezvous.vanished_workers == 1)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(first.barrier)
        wait_for(lambda: running.waiting_ranks == [0])
        successor = join(running)
        assert (second.life, successor.rank, successor.life) == (0, 1, 1)
        assert running.cluster.admitted == [(1, 2)], "rank 1, in the second epoch"
        successor.wait(successor.push(KEYS, 100 * ONES))
        assert not waiting.done()
        successor.barrier()
        waiting.result(PATIENCE_S)
    assert first.read().tolist() == successor.read().tolist() == [[111.0]] * ROWS
    successor.close()
    first.close()
    wait_for(lambda: running.is_idle)
    assert running.cluster.values().tolist() == [111] * ROWS


def test_barriers_go_on_without_the_dead_and_wait_for_new_workers(
    running: RunningRendezvous,
) -> None:
    set_mode(running, "continue")
    first, second = join(running, 0), join(running, 1)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(first.barrier)
        wait_for(lambda: running.waiting_ranks == [0])
        die(second)
        waiting.result(PATIENCE_S)
        first.barrier()
        new = join(running)
        waiting = pool.submit(first.barrier)
        wait_for(lambda: running.waiting_ranks == [0])
        assert not waiting.done()
        new.barrier()
        waiting.result(PATIENCE_S)
    new.close()
    first.barrier()
    first.close()


def test_without_a_setting_a_death_ends_the_session_for_all(running: RunningRendezvous) -> None:
    first, second = join(running, 0), join(running, 1)
    die(second)
    wait_for(lambda: running.rendezvous.vanished_workers == 1)
    with pytest.raises(ClusterLost, match="worker 1 has ended without leaving"):
        first.barrier()
    with pytest.raises(NotConnected, match="a session is under way that cannot go on"):
        join(running)
    first.close()


@pytest.mark.parametrize("mode", ["wait", "continue"])
def test_another_worker_sets_the_table_that_a_dead_one_was_to_set(
    running: RunningRendezvous, mode: AfterDeath, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_mode(running, mode)
    first, second = join(running, 0), join(running, 1)
    is_setting, goes_on = threading.Event(), threading.Event()

    def stall(_: Operation) -> int:
        is_setting.set()
        goes_on.wait(PATIENCE_S)
        raise HotlineError("killed")

    monkeypatch.setattr(second._open_engine, "submit", stall)
    with ThreadPoolExecutor() as pool:
        dying = pool.submit(second.init, 5 * ONES)
        assert is_setting.wait(PATIENCE_S)
        setting = pool.submit(first.init, 7 * ONES)
        wait_for(lambda: running.rendezvous.workers == 2)
        die(second)
        assert setting.result(PATIENCE_S) is True
        goes_on.set()
        assert isinstance(dying.exception(PATIENCE_S), HotlineError)
    assert first.read().tolist() == [[7.0]] * ROWS
    if mode == "wait":
        successor = join(running)
        assert successor.init(5 * ONES) is False
        successor.close()
    first.close()


def test_a_session_outlives_its_only_worker_and_the_successor_finds_the_model(
    running: RunningRendezvous, caplog: pytest.LogCaptureFixture
) -> None:
    set_mode(running, "wait")
    for life in range(3):
        kv = join(running, 0)
        assert kv.life == life and kv.read().tolist() == [[float(life)]] * ROWS
        kv.wait(kv.push(KEYS, ONES))
        die(kv)
        wait_for(lambda: running.rendezvous.vanished_workers == life + 1)  # noqa: B023
    assert running.cluster.sessions == 1
    assert says(caplog.text, "worker 0", "the others wait for a worker with rank=0")
    running.end()
    assert running.cluster.servers == [], "the end of the rendezvous ends a session that waits"


def test_a_worker_that_the_switch_does_not_admit_has_not_joined(
    running: RunningRendezvous, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its epoch is not used again: the switch may have taken it before the answer was lost."""
    set_mode(running, "continue")
    first = join(running, 0)
    die(join(running, 1))
    wait_for(lambda: running.rendezvous.vanished_workers == 1)

    async def refuse(rank: int, epoch: int) -> None:
        raise HotlineError("no switch answers")

    with monkeypatch.context() as patched:
        patched.setattr(running.cluster, "admit", refuse)
        with pytest.raises(NotConnected, match="no switch answers"):
            join(running, 1)
    first.barrier()
    assert join(running, 1).life == 2 and running.cluster.admitted == [(1, 3)]
