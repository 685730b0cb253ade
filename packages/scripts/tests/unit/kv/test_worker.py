"""`hotline.Worker` on loopback: pushes are applied, errors are reported, and no call hangs."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hotline
from foundation.limits import WallClockLimit
from foundation.protocol import addressing
from hotline_scripts import rendezvous
from hotline_scripts.embedding_tables import TableError
from hotline_scripts.kv import engine
from hotline_scripts.kv.calls import InvalidArgument
from hotline_scripts.kv.connection import ClusterLost, NotConnected
from hotline_scripts.kv.engine import InvalidCall, WorkerClosed
from switch_harness.effort import examples
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions, says, says_in_one_line
from tests.harness.loopback import JOB, NET, RunningRendezvous, running_rendezvous

TABLES = {"users": (20, 3), "items": (12, 1)}
SCALE = {"users": 2.0**10, "items": 1.0}
F32 = np.float32


class Rig:
    """Two workers, and what they are connected to."""

    def __init__(self, running: RunningRendezvous, stack: ExitStack) -> None:
        self.running, self._stack = running, stack

    def worker(self, tables: Any = TABLES, scale: Any = SCALE, **more: Any) -> hotline.Worker:
        made = hotline.Worker(tables, scale, connect=self.running.place, **more)
        self._stack.callback(made._leave)
        return made


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with running_rendezvous(tmp_path) as running, ExitStack() as stack:
        yield Rig(running, stack)


def ones(*shape: int) -> Any:
    return np.ones(shape, F32)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[int, str, str, list[int], int]]:
    """Draw worker, call, table, keys in any order, and a seed of values."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        table = draw(st.sampled_from(sorted(TABLES)))
        keys = draw(st.lists(st.integers(0, TABLES[table][0] - 1), unique=True, max_size=12))
        call = draw(st.sampled_from(["push", "pull", "push_pull"]))
        found.append((draw(st.integers(0, 1)), call, table, keys, draw(st.integers(0, 2**16))))
    return found


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps(), sets=st.sets(st.sampled_from(sorted(TABLES))), waits=st.booleans())
def test_any_sequence_of_operations_equals_a_plain_model(
    rig: Rig, steps: list[tuple[int, str, str, list[int], int]], sets: set[str], waits: bool
) -> None:
    """Floats within half a unit a push, and whole units exactly; `waits` before the other worker goes on."""
    model = {name: np.zeros(size) for name, size in TABLES.items()}
    pushes = {name: np.zeros(size[0]) for name, size in TABLES.items()}
    with rig.worker() as first, rig.worker() as second:
        workers, before = (first, second), 0
        for name in sets:
            values = np.random.default_rng(5).normal(size=TABLES[name]).astype(F32) * 50
            assert first.init(values, name) and not second.init(-values, name)
            model[name] += values
            pushes[name] += 1
        for w, call, name, keys, seed in steps:
            if w != before:
                workers[before].wait(workers[before].pull([], np.zeros((0, 1), F32), "items"))
                before = w
            shape = (len(keys), TABLES[name][1])
            values = np.random.default_rng(seed).normal(size=shape).astype(F32) * 10
            out, ts = np.full(shape, np.nan, F32), -1
            if call != "pull":
                model[name][keys] += values
                pushes[name][keys] += 1
            if call == "push":
                ts = workers[w].push(keys, values, name)
            elif call == "pull":
                ts = workers[w].pull(keys, out, name)
            else:
                ts = workers[w].push_pull(keys, values, out, name)
            if waits or call != "push":
                workers[w].wait(ts)
            if call != "push":
                bound = pushes[name][keys, None] / 2 / SCALE[name] + np.abs(out) * 2.0**-23
                assert (np.abs(out - model[name][keys]) <= bound).all()
        assert first.saturated == second.saturated == {"users": 0, "items": 0}


def test_two_workers_that_push_at_once_lose_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers come back exactly, though each operation is cut in many."""
    monkeypatch.setattr(engine, "MAX_CHUNK", 16)
    workers = [rig.worker(), rig.worker()]
    keys = np.random.default_rng(1).permutation(20)
    values = np.arange(60, dtype=F32).reshape(20, 3)
    numbers = [[kv.push(keys, values, "users") for _ in range(8)] for kv in workers]
    for kv, own in zip(workers, numbers, strict=True):
        assert own == list(range(8))
        kv.wait(own[-1])
    expected = np.zeros((20, 3), F32)
    expected[keys] = 16 * values
    for kv in workers:
        assert kv.read("users").tolist() == expected.tolist()


def test_pulled_values_have_the_order_of_the_keys_and_arrive_before_the_callback(rig: Rig) -> None:
    kv = rig.worker()
    keys, seen = np.array([9, 2, 11], np.uint16), list[object]()
    out, flat = np.zeros((3, 1), F32), np.zeros(6, F32)[::2]
    values = np.array([1, 2, 3], F32)
    first = kv.push_pull(keys, values, out, "items", callback=lambda: seen.append(out.tolist()))
    values[:] = 100  # it has been copied
    second = kv.pull(keys, flat, "items", callback=lambda: seen.append(kv.push([], ones(0), "items")))
    assert (first, second) == (0, 1)
    kv.wait(second)
    assert seen == [[[1.0], [2.0], [3.0]], 2] and flat.tolist() == [1.0, 2.0, 3.0]
    kv.wait(2)
    kv.wait(first)


def test_arrays_of_any_kind_are_taken(rig: Rig) -> None:
    """Strided, not to be written to, of the other byte order, or of an unaligned record."""
    kv = rig.worker()
    keys, values = np.arange(8)[::2], np.arange(12, dtype=F32).reshape(3, 4).T
    values.flags.writeable = False
    wide = np.full((4, 6), -1, F32)
    kv.wait(kv.push_pull(keys, values, wide[:, ::2], "users"))
    assert wide[:, ::2].tolist() == values.tolist() and (wide[:, 1::2] == -1).all()
    record = np.zeros(4, [("one", "i1"), ("out", "f4", (3,))])
    frozen = keys.astype(">i4")
    frozen.flags.writeable = False
    kv.wait(kv.pull(frozen, record["out"], "users"))
    assert record["out"].tolist() == values.tolist() and not record["one"].any()


def test_errors_of_callbacks_are_raised_by_wait(rig: Rig) -> None:
    kv = rig.worker()
    ts = kv.push([1], ones(1), "items", callback=lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        kv.wait(ts)
    waits = kv.push([1], ones(1), "items", callback=lambda: kv.wait(0))
    with pytest.raises(InvalidCall):
        kv.wait(waits)
    assert kv.read("items")[1] == 2.0


WIDE: Any = np.ones((2, 3))
LIST: Any = [0.0]
WRONG: list[tuple[Callable[[hotline.Worker], object], str]] = [
    (lambda kv: kv.push([3, 1, 3], ones(3), "items"), r"items.*distinct keys, got 3 at indices 0 and 2"),
    (lambda kv: kv.push([4, 12], ones(2), "items"), r"items has 12 rows: .*0\.\.11, got 12 at index 1"),
    (lambda kv: kv.push([7, -2], ones(2), "items"), r"items .* got -2 at index 1"),
    (lambda kv: kv.push([1.0], ones(1), "items"), r"items.*integer keys, got float64"),
    (lambda kv: kv.push([[1]], ones(1), "items"), r"items.*one dimension, got the shape \(1, 1\)"),
    (lambda kv: kv.push([1, 2], ones(2, 2), "users"), r"users.*shape \(2, 3\), got \(2, 2\)"),
    (lambda kv: kv.push([1, 2], ones(3), "items"), r"items.*shape \(2,\) or \(2, 1\), got \(3,\)"),
    (lambda kv: kv.push([1], WIDE[:1], "users"), r"users.*float32, got float64"),
    (
        lambda kv: kv.push([5, 1], np.array([1, np.nan], F32), "items"),
        r"items.*finite values, got nan at values\[1\]",
    ),
    (
        lambda kv: kv.push([5], np.array([[1, 2, -np.inf]], F32), "users"),
        r"users.*finite values, got -inf at values\[0, 2\]",
    ),
    (lambda kv: kv.pull([5], LIST, "items"), r"items.*a NumPy array as out, got \[0\.0\]"),
    (lambda kv: kv.pull([5], WIDE[0], "items"), r"items.*float32, got float64"),
    (
        lambda kv: kv.pull([5], np.broadcast_to(ones(1), (1,)), "items"),
        r"items.* out .* written to, got a read-only",
    ),
    (lambda kv: kv.init(ones(11), "items"), r"items.*shape \(12,\) or \(12, 1\), got \(11,\)"),
]


@pytest.mark.parametrize(("call", "reported"), WRONG)
def test_wrong_arguments_are_named_and_nothing_is_sent(
    rig: Rig, call: Callable[[hotline.Worker], object], reported: str
) -> None:
    kv = rig.worker()
    with pytest.raises(InvalidArgument, match=reported):
        call(kv)
    assert kv.push([], ones(0), "items") == 0
    assert not kv.read("users").any() and not kv.read("items").any()


def test_an_unknown_table_is_named_with_the_known_tables(rig: Rig) -> None:
    kv = rig.worker()
    with pytest.raises(TableError, match=mentions("user", "unknown")):
        kv.push([1], ones(1), "user")
    with pytest.raises(TableError, match=mentions("users", "name")):
        kv.push([1], ones(1))
    for wrong in (5, -1):
        with pytest.raises(InvalidCall, match=rf"wait\({wrong}\)"):
            kv.wait(wrong)
    with pytest.raises(InvalidArgument, match=mentions("finite", "number")):
        kv.report(loss=float("nan"))
    anything: Any = ["a", None, [1.0, 2.0]]
    for wrong in anything:
        with pytest.raises(InvalidArgument) as refused:
            kv.report(loss=0.5, accuracy=wrong)
        assert says_in_one_line(str(refused.value), "accuracy", f"{wrong!r}")
    assert rig.running.reports == []


def test_a_table_is_set_once_and_only_before_the_first_push(rig: Rig) -> None:
    first, second = rig.worker(), rig.worker()
    with ThreadPoolExecutor() as pool:
        taken = list(pool.map(lambda kv: kv.init(ones(12) * (kv.rank + 1), "items"), (first, second)))
    assert sorted(taken) == [False, True]
    assert first.read("items").tolist() == [[taken.index(True) + 1.0]] * 12
    with pytest.raises(InvalidCall, match="items"):
        first.init(ones(12), "items")
    second.wait(second.push([0], ones(1, 3), "users"))
    with pytest.raises(InvalidCall, match="users"):
        second.init(ones(20, 3), "users")


def test_values_that_saturate_are_counted_and_reported(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    kv = rig.worker()
    kv.push([0, 1, 2], np.array([3e9, -3e9, 7], F32), "items")
    assert kv.saturated == {"users": 0, "items": 2}
    assert kv.read("items")[:3, 0].tolist() == [F32(2**31 - 1), F32(-(2**31)), 7.0]
    kv.close()
    reported = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(reported) == 2  # ours, and `up`'s log
    assert all("items" in each and "2" in each for each in reported)


def test_the_model_is_saved_and_each_session_begins_with_zeros(rig: Rig, tmp_path: Path) -> None:
    with rig.worker() as kv:
        kv.push([3], ones(1, 3), "users")
        kv.report(loss=0.5, accuracy=0.75)
        kv.save(tmp_path / "model.npz")
        assert kv.parameters([2, 1], "users").tolist() == [13, 14]
    with np.load(tmp_path / "model.npz") as saved:
        assert {name: saved[name].shape for name in saved.files} == {"users": (20, 3), "items": (12, 1)}
        assert saved["users"].sum() == saved["users"][3].sum() == 3.0
    assert rig.running.reports == [{"rank": 0, "report": 0, "metrics": {"loss": 0.5, "accuracy": 0.75}}]
    wait_for(lambda: rig.running.rendezvous.workers == 0)
    with rig.worker({"users": (5, 1)}, 4.0) as kv:
        assert kv.rank == 0 and not kv.read().any()
    with pytest.raises(WorkerClosed):
        kv.push([1], ones(1))
    kv.close()
    assert rig.running.cluster.sessions == 2


def test_ranks_are_given_once_and_tables_are_alike(rig: Rig) -> None:
    first = rig.worker(rank=1)
    assert (first.rank, first.size) == (1, 2)
    for wrong, reported in (
        ({"users": (20, 3)}, "items"),
        ({**TABLES, "items": (13, 1)}, "13 rows.* 12 rows"),
    ):
        with pytest.raises(NotConnected, match=reported):
            rig.worker(wrong, 1.0)
    with pytest.raises(NotConnected, match=mentions("items", 1)):
        rig.worker(scale={**SCALE, "items": 2.0})
    for rank, reported in ((1, "rank = 1"), (2, r"rank = 2.*0\.\.1")):
        with pytest.raises(NotConnected, match=reported):
            rig.worker(rank=rank)
    assert rig.worker().rank == 0
    with pytest.raises(NotConnected, match="all 2 ranks"):
        rig.worker()


def test_without_a_session_a_worker_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTLINE_CONNECT", str(tmp_path / "nobody.sock"))
    with pytest.raises(NotConnected, match=mentions("nobody.sock")):
        hotline.Worker(TABLES)


def test_barriers_wait_for_all_and_fail_when_a_worker_has_gone(rig: Rig) -> None:
    workers = [rig.worker(), rig.worker()]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda kv: kv.barrier(), workers))
        waiting = pool.submit(workers[0].barrier)
        wait_for(lambda: len(rig.running.waiting_ranks) == 1)
        workers[1]._connection.close()  # as if its process had ended
        with pytest.raises(ClusterLost, match=mentions("worker 1", "worker")):
            waiting.result(PATIENCE_S)
    with pytest.raises(ClusterLost, match="worker 1"):
        workers[0].barrier()
    assert not workers[0].read("items").any()  # servers are still there
    with pytest.raises(NotConnected, match="worker 1") as refused:
        rig.worker()
    assert "cannot go on" in str(refused.value)


def test_a_note_names_the_workers_that_a_barrier_waits_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rendezvous, "NOTE_S", 0.0)
    first = rig.worker()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(first.barrier)
        wait_for(lambda: says(caplog.text, "barrier", "worker 1"))
        second = rig.worker()
        second.barrier()
        waiting.result(PATIENCE_S)
        waiting = pool.submit(first.barrier)
        wait_for(lambda: says(caplog.text, "barrier", "worker 1"))
        second.barrier()
        waiting.result(PATIENCE_S)
        assert second._connection.ask("init", table="items")["is_first"]
        setting = pool.submit(first.init, ones(12), "items")
        wait_for(lambda: says(caplog.text, "init", "worker 1"))
        second._connection.ask("set", table="items")
        assert not setting.result(PATIENCE_S)


def test_a_server_that_could_answer_and_does_not_is_named(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SILENCE_S", 0.1)
    rig.running.cluster.silence_s = 0.1
    kv = rig.worker()
    rig.running.cluster.servers[1].mute = True
    ts = kv.push(np.arange(12), ones(12), "items")
    wait_for(lambda: kv._open_engine._error is not None)
    with pytest.raises(ClusterLost, match=mentions("server 1", "within 0.1 s")):
        kv.wait(ts)
    with pytest.raises(ClusterLost):
        kv.push([1], ones(1), "items")


def test_a_silent_server_is_waited_for_with_one_note(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each silence has a note, and how long one lasts is the backend's to limit."""
    monkeypatch.setattr(engine, "SILENCE_S", 0.01)
    monkeypatch.setattr(WallClockLimit, "look_s", property(lambda self: 0.01))
    kv = rig.worker()
    silent = rig.running.cluster.servers[1]
    for _ in range(2):
        silent.mute = True
        caplog.clear()
        ts = kv.push(np.arange(12), ones(12), "items")
        wait_for(lambda: says(caplog.text, "server 1", "waiting"))
        reported = rig.running.joined_workers[0].answered
        silent.mute = False
        kv.wait(ts)
        assert reported is not None
        wait_for(reported.done)
        assert caplog.text.count("server 1") == 1
    assert (kv.read("items") == 2).all()


@pytest.mark.parametrize("end", ["broken", "ended"])
def test_waiting_callers_are_notified_of_the_end(rig: Rig, end: str) -> None:
    kv = rig.worker()
    for server in rig.running.cluster.servers:
        server.mute = True
    ts = kv.push([1], ones(1), "items")
    breaks: dict[str, Callable[[], None]] = {
        "ended": rig.running.end,
        "broken": lambda: rig.running.break_session("ps-1 ended with code -9"),
    }
    message = {"ended": "hotline up", "broken": "ps-1 ended with code -9; .*again"}[end]
    with ThreadPoolExecutor() as pool:
        breaking = pool.submit(breaks[end])
        with pytest.raises(ClusterLost, match=message):
            kv.wait(ts)
        breaking.result(PATIENCE_S)


def test_ctrl_c_in_wait_is_heard_at_once(rig: Rig) -> None:
    kv = rig.worker()
    since = 0.0

    def interrupt() -> None:
        nonlocal since
        for server in rig.running.cluster.servers:
            server.mute = True
        since = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    kv.push([1], ones(1), "items", callback=interrupt)
    with pytest.raises(KeyboardInterrupt), kv:
        kv.wait(kv.push([1], ones(1), "items"))
    assert time.monotonic() - since < 1
    wait_for(lambda: rig.running.rendezvous.workers == 0)


def test_a_port_that_is_taken_is_reported(rig: Rig) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((f"{NET}.1", addressing.worker_udp_port(JOB)))
        with pytest.raises(NotConnected, match=rf"UDP port {addressing.worker_udp_port(JOB)} of {NET}\.1"):
            rig.worker()
    wait_for(lambda: rig.running.rendezvous.workers == 0)
