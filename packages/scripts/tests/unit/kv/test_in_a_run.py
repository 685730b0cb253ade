"""A script's worker in a run: it waits for its blocks, and its books have what it pushed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hotline
from foundation.logs.columns import AFTER_ALL_STEPS
from foundation.protocol.header import padded_dim
from hosts import ledger
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.kv import worker
from hotline_scripts.kv.connection import ClusterLost
from hotline_scripts.kv.engine import InvalidCall
from hotline_scripts.kv.worker import Worker
from switch_harness.effort import examples
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says
from tests.harness.loopback import JOB, RunningRendezvous, running_rendezvous

TABLES = {"rows": (30, 2)}
OPENING = {"start_ns": 0, "round": 3, "load": 0.0, "discard_ns": 0, "discard_steps": AFTER_ALL_STEPS}
F32 = np.float32


@pytest.fixture
def running(running: RunningRendezvous, tmp_path: Path) -> RunningRendezvous:
    running.cluster.parts = str(tmp_path)
    return running


def join(running: RunningRendezvous, rank: int = 0) -> tuple[Worker, JoinedWorker]:
    worker = hotline.Worker(TABLES, scale=1.0, connect=running.place, rank=rank)
    return worker, next(joined for joined in running.joined_workers if joined.rank == rank)


def opened(running: RunningRendezvous, joined: JoinedWorker, **values: object) -> None:
    assert running.send_command(joined, "begin_block", **{**OPENING, **values}) == {}


def shut(running: RunningRendezvous, joined: JoinedWorker) -> dict[str, Any]:
    reported = running.send_command(joined, "end_block")
    assert reported is not None
    return reported


def push(kv: Worker, keys: list[int], value: float = 1.0, **more: Any) -> int:
    return kv.push(keys, np.full((len(keys), 2), value, F32), **more)


def shut_before(running: RunningRendezvous, kv: Worker, joined: JoinedWorker, keys: list[int]) -> int:
    """Shut a block after the push to key 1 and before that to `keys`; return the timestamp of the latter."""
    started, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        started.set()
        go_on.wait(PATIENCE_S)

    push(kv, [1], callback=hold)
    last = push(kv, keys)
    assert started.wait(PATIENCE_S)
    engine = kv._engine
    assert engine is not None
    with ThreadPoolExecutor() as pool:
        shutting = pool.submit(shut, running, joined)
        wait_for(lambda: engine._is_paused)
        go_on.set()
        assert shutting.result(PATIENCE_S)["steps"] == 1
    return last


def sent(folder: Path, epoch: int = 1, worker: int = 1) -> list[int]:
    sums = ledger.read(folder / f"ledger-worker-{worker}-job-{JOB}-epoch-{epoch}.bin")
    assert not sums.unknown.any()
    rows = sums.sent.view(np.int32).reshape(-1, padded_dim(TABLES["rows"][1]))
    found: list[int] = rows[:, : TABLES["rows"][1]].ravel().tolist()
    return found


def test_calls_wait_for_a_block_and_for_the_next(running: RunningRendezvous, tmp_path: Path) -> None:
    kv, joined = join(running)
    calling = threading.Thread(target=lambda: kv.wait(push(kv, [1, 2])))
    calling.start()
    assert shut(running, joined) == {}  # none has been open
    assert calling.is_alive()
    opened(running, joined)
    calling.join(PATIENCE_S)
    reported = shut(running, joined)
    expected = {"steps": 1, "updates_sent": 2, "max_lateness_ns": 0, "loss": None}
    assert {name: reported[name] for name in expected} == expected
    assert reported["cpu_s"] > 0 and reported["retransmissions"] >= 0
    again = threading.Thread(target=push, args=(kv, [3]))
    again.start()
    assert shut(running, joined) == {} and again.is_alive()
    opened(running, joined)
    again.join(PATIENCE_S)
    kv.close()
    assert sent(tmp_path) == [0, 0, 1, 1, 1, 1, 1, 1, *[0] * 52]


def test_a_step_is_a_push_with_its_earlier_pulls_and_tables_are_set_outside_of_steps(
    running: RunningRendezvous, tmp_path: Path
) -> None:
    kv, joined = join(running)
    opened(running, joined)
    kv.init(np.ones((30, 2), F32))
    out = np.zeros((3, 2), F32)
    kv.pull([4, 5, 6], out)
    kv.wait(kv.pull([7, 8, 9], out))
    kv.wait(push(kv, [4, 5]))
    kv.wait(push(kv, [6]))
    kv.read()
    reported = shut(running, joined)
    assert (reported["steps"], reported["updates_sent"]) == (2, 3)
    rows = pl.read_parquet(tmp_path / f"operations-worker-1-job-{JOB}-0.parquet")
    assert rows["op"].to_list() == ["push", "pull", "pull", "push", "step", "push", "step", "pull"]
    first, second = rows.filter(pl.col("op") == "step").rows(named=True)
    pulls = rows.filter(pl.col("op") == "pull")
    assert (first["iteration"], second["iteration"]) == (0, 1)
    assert first["scheduled_us"] == pulls["scheduled_us"][0] and first["end_us"] == rows["end_us"][3]
    assert first["rpcs"] == pulls["rpcs"][0] + pulls["rpcs"][1] + rows["rpcs"][3]
    assert set(rows["round"]) == {3} and set(rows["arm"].cast(pl.String)) == {"here"}
    rpcs = pl.read_parquet(tmp_path / f"rpc-worker-1-job-{JOB}-0.parquet")
    assert rpcs.height == rows.filter(pl.col("op") != "step")["rpcs"].sum()
    kv.close()


def test_operations_called_before_a_block_are_timed_from_the_blocks_beginning(
    running: RunningRendezvous, tmp_path: Path
) -> None:
    """Time outside of blocks is no latency. A block's first part, in time or in steps, is not measured."""
    kv, joined = join(running)
    opened(running, joined)
    last = shut_before(running, kv, joined, [2])
    opened(running, joined, discard_ns=10**12)
    kv.wait(last)
    assert shut(running, joined)["steps"] == 1
    begun, late = (
        pl.read_parquet(tmp_path / f"operations-worker-1-job-{JOB}-{part}.parquet") for part in (0, 1)
    )
    assert late["scheduled_us"][0] > begun["end_us"][-1]
    assert begun["measured"].all() and not late["measured"].any()
    opened(running, joined, discard_ns=10**12, discard_steps=1)
    for key in (3, 4, 5):
        kv.wait(push(kv, [key]))
    assert shut(running, joined)["steps"] == 3
    fast = pl.read_parquet(tmp_path / f"operations-worker-1-job-{JOB}-2.parquet")
    assert fast.filter(pl.col("op") == "step")["measured"].to_list() == [False, True, True]
    kv.close()


@settings(
    max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    pushes=st.lists(st.tuples(st.sets(st.integers(0, 29), min_size=1), st.integers(-99, 99)), max_size=12),
    blocks=st.integers(1, 4),
)
def test_pushes_that_wait_between_blocks_are_pushed_once(
    tmp_path_factory: pytest.TempPathFactory, pushes: list[tuple[set[int], int]], blocks: int
) -> None:
    folder = tmp_path_factory.mktemp("run")
    with running_rendezvous(folder) as running:
        running.cluster.parts = str(folder)
        kv, joined = join(running)
        expected = np.zeros((30, 2), int)

        def train() -> None:
            for keys, value in pushes:
                push(kv, sorted(keys), value)
            kv.close()

        training = threading.Thread(target=train)
        training.start()
        steps = 0
        for keys, value in pushes:
            expected[sorted(keys)] += value
        for _ in range(blocks):
            if running.send_command(joined, "begin_block", **OPENING) is not None:
                steps += (running.send_command(joined, "end_block") or {}).get("steps", 0)
        running.send_command(joined, "begin_block", **OPENING)
        training.join(PATIENCE_S)
        assert not training.is_alive()
        steps += (joined.final_report["last_block"] or {}).get("steps", 0)
        assert sent(folder) == expected.reshape(-1).tolist()
        assert steps == len(pushes) and joined.final_report["dropped_rows"] == 0


def test_a_worker_that_leaves_in_a_block_reports_progress_and_results(
    running: RunningRendezvous,
) -> None:
    kv, joined = join(running)
    opened(running, joined)
    push(kv, [1])
    kv.wait(push(kv, [2]))
    wait_for(lambda: joined.steps >= 1)
    kv.close()
    wait_for(joined.has_left.is_set)
    assert (joined.final_report["last_block"]["steps"], joined.final_report["dropped_rows"]) == (2, 0)
    assert running.send_command(joined, "end_block") is None


@pytest.mark.parametrize("error", [None, LookupError("mine")])
def test_a_script_that_ends_between_blocks_delivers_in_its_next_block_unless_failed(
    running: RunningRendezvous, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    kv, joined = join(running)
    monkeypatch.setattr(worker, "EXIT_TIMEOUT_S", PATIENCE_S)
    opened(running, joined)
    shut_before(running, kv, joined, [2, 3])
    if error is None:
        with ThreadPoolExecutor() as pool:
            ending = pool.submit(kv.end, None)
            opened(running, joined)
            errors: list[BaseException] = ending.result(PATIENCE_S)
            assert not errors
        assert sent(tmp_path) == [0, 0, 1, 1, 1, 1, 1, 1, *[0] * 52]
        assert joined.final_report["last_block"]["steps"] == 1
    else:
        [loss] = kv.end(error)
        assert says(str(loss), 4, "delivered")
        wait_for(lambda: joined.is_lost)


def test_hints_come_from_a_hot_set_and_an_unreadable_hot_set_is_reported(
    running: RunningRendezvous, tmp_path: Path
) -> None:
    kv, joined = join(running)
    hot = tmp_path / "hotset.parquet"
    pl.DataFrame({"key": [1, 2]}).write_parquet(hot)
    assert running.send_command(joined, "hint", file=str(hot)) == {}
    reported = running.send_command(joined, "hint", file=str(tmp_path / "none.parquet"))
    assert reported is not None and "none.parquet" in reported["error"]
    assert running.send_command(joined, "flush") == {"dropped_rows": 0}
    kv._leave(is_orderly=False)


def test_a_worker_that_waits_for_a_block_raises_an_error_if_the_servers_are_gone(
    running: RunningRendezvous,
) -> None:
    kv, _ = join(running)
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(push, kv, [1])
        running.break_session("server ps-0 has ended")
        with pytest.raises(ClusterLost, match="ps-0"):
            calling.result(PATIENCE_S)
    kv._leave(is_orderly=False)


def test_a_run_sets_the_rank_and_arm_of_a_script(
    running: RunningRendezvous, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTLINE_CONNECT", str(running.place))
    monkeypatch.setenv("HOTLINE_RANK", "1")
    kv = hotline.Worker(TABLES)
    assert (kv.rank, kv.size, kv.arm, kv.seed) == (1, 2, "here", 1)
    kv._leave(is_orderly=False)
    monkeypatch.setenv("HOTLINE_RANK", "first")
    with pytest.raises(InvalidCall, match="HOTLINE_RANK=first"):
        hotline.Worker(TABLES)
