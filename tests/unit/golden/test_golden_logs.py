"""Rows of each log from known times of datagrams: every column, with its unit, against a number by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from controller.hotset import choice as hotset
from foundation.logs.columns import CONNECTIONS, OPERATIONS, RPC, UPDATES
from foundation.logs.rpc_row import ROW
from foundation.protocol.header import Op
from hotline_agents.worker.logs import Origin, WorkerLogs
from tests.harness.timed import Timed
from tests.unit.golden.run import BATCH, DENSE, HINTED, SERVED_IN_MIXED, START, GoldenRun

BLOCK_US = START // 1000 + (7 * 5 + 3) * 1_000_000
"""Start of arm offload in round 7: the fourth of five arms, each block a second."""
UNIX_US = 1_700_000_000_000_000 + BLOCK_US


def rows(golden: GoldenRun, log: str, *which: pl.Expr) -> list[dict[str, object]]:
    return pl.scan_parquet(golden.folder / f"{log}.parquet").filter(*which).collect().to_dicts()


def of_step_20(op: str) -> tuple[pl.Expr, ...]:
    """Select step 20 of 30 in arm offload, round 7: its extra time is 10 µs, that of the round 60 µs."""
    step = 1000 + 7 * 30 + 20
    return pl.col("arm") == "offload", pl.col("iteration") == step, pl.col("op") == op


def test_the_logs_have_the_documented_columns_and_types(golden: GoldenRun) -> None:
    schemas = {"rpc": RPC, "operations": OPERATIONS, "connections": CONNECTIONS, "updates": UPDATES}
    for log, schema in schemas.items():
        assert pl.read_parquet_schema(golden.folder / f"{log}.parquet") == schema


def test_an_rpc_served_by_switch_and_server_is_logged_as_mixed(golden: GoldenRun) -> None:
    """A pull of 32 lanes, 13 of them served by the switch."""
    assert rows(golden, "rpc", *of_step_20("pull"), pl.col("class") == "mixed") == [
        {
            "worker": 3, "ps": 1, "job": 4, "arm": "offload", "round": 7, "load": 0.5, "iteration": 1230,
            "op": "pull", "class": "mixed",
            # Due after 20 periods of 10 ms, begun 2 µs late, its first RPC.
            "t_send_us": UNIX_US + 200_000 + 2,
            "request_bytes": 56 + 32 * 8,
            "response_bytes": 56 + 32 * 4,
            "w_proc_us": 6.0, "w_queue_us": 9.0, "ps_proc_us": 70.0, "ps_queue_us": 26.0,
            "n_tx_us": 179.0 + 10 + 60, "switch_us": 14.0, "latency_us": 290.0 + 10 + 60,
            "lanes": 32, "served": 13, "attempts": 1, "measured": True,
        }
    ]  # fmt: skip


def test_rpcs_answered_by_the_switch_and_by_a_server_have_their_times(golden: GoldenRun) -> None:
    """The RPCs of a push: the first in hash lanes, sent fourth, and the second without served lanes."""
    hit, _, _ = rows(golden, "rpc", *of_step_20("push"), pl.col("class") == "all_hit")
    assert (hit["lanes"], hit["served"]) == (2, 2)
    # Keys in the lanes 9 and 20: 21 lanes travel.
    assert (hit["request_bytes"], hit["response_bytes"]) == (56 + 21 * 12, 56)
    assert (hit["ps_proc_us"], hit["ps_queue_us"], hit["switch_us"]) == (0.0, 0.0, 4.0)
    assert (hit["n_tx_us"], hit["latency_us"]) == (65.0 + 70, 70.0 + 70)
    # Half a period after the pull; an RPC leaves 1 µs after the one before.
    assert hit["t_send_us"] == UNIX_US + 205_000 + 2 + 3
    _, cold = rows(golden, "rpc", *of_step_20("push"), pl.col("class") == "cold")
    assert (cold["lanes"], cold["served"]) == (3, 0)
    assert (cold["request_bytes"], cold["response_bytes"]) == (56 + 3 * 12, 56)
    assert (cold["ps_proc_us"], cold["ps_queue_us"], cold["switch_us"]) == (40.0, 20.0, 8.0)
    assert (cold["n_tx_us"], cold["latency_us"]) == (131.0 + 70, 200.0 + 70)


def test_an_empty_rpc_has_its_times_and_no_lanes(golden: GoldenRun) -> None:
    first, *_, last = rows(golden, "rpc", pl.col("op") == "empty")
    assert (first["class"], first["round"], first["load"]) == ("cold", 0, 0.0)
    assert (first["lanes"], first["served"]) == (0, 0)
    assert (first["request_bytes"], first["response_bytes"]) == (56, 56)
    assert (first["w_proc_us"], first["w_queue_us"]) == (1.0, 2.0)
    assert (first["ps_proc_us"], first["ps_queue_us"]) == (3.0, 4.0)
    assert (first["n_tx_us"], first["latency_us"], first["switch_us"]) == (90.0, 100.0, 5.0)
    assert last["latency_us"] == 1210.0


def test_operations_that_begin_before_a_block_has_settled_are_not_measured(golden: GoldenRun) -> None:
    for log in ("rpc", "operations"):
        of_block = (pl.col("arm") == "offload", pl.col("round") == 7)
        measured = {row["iteration"]: row["measured"] for row in rows(golden, log, *of_block)}
        assert measured == {1210 + step: step >= 5 for step in range(30)}


def test_operations_are_timed_from_their_due_time(golden: GoldenRun) -> None:
    common = {"worker": 3, "job": 4, "arm": "offload", "round": 7, "load": 0.5, "iteration": 1230}
    pull = {"op": "pull", "scheduled_us": UNIX_US + 200_000, "start_us": UNIX_US + 200_002, "rpcs": 6}
    push = {"op": "push", "scheduled_us": UNIX_US + 205_000, "start_us": UNIX_US + 205_002, "rpcs": 6}
    step = {"op": "step", "scheduled_us": UNIX_US + 200_000, "start_us": UNIX_US + 200_002, "rpcs": 12}
    # A pull takes 400 µs in arm offload, a push 450; 10 more in step 20, 60 more in round 7.
    pull |= {"end_us": UNIX_US + 200_470, "latency_us": 470.0}
    push |= {"end_us": UNIX_US + 205_520, "latency_us": 520.0}
    step |= {"end_us": UNIX_US + 205_520, "latency_us": 5520.0}
    for expected in (pull, push, step):
        assert rows(golden, "operations", *of_step_20(str(expected["op"]))) == [
            {**common, **expected, "measured": True}
        ]


def test_a_contact_is_when_the_kernel_got_the_request(golden: GoldenRun) -> None:
    in_step_20 = pl.col("time_us").is_between(UNIX_US + 200_000, UNIX_US + 209_999)
    contacts = rows(golden, "connections", in_step_20)
    # The pull's first RPC left at +2 µs and was half of its 249 µs on the way.
    assert contacts[0] == {"time_us": UNIX_US + 200_002 + 124, "ps": 1, "worker": 3, "job": 4}
    # Three RPCs of the pull, three of the push, and the last one of the push a second time.
    assert [contact["time_us"] for contact in contacts[-2:]] == [UNIX_US + 205_004 + 100] * 2
    assert len(contacts) == 7


def test_the_update_log_has_the_updates_that_servers_added(golden: GoldenRun) -> None:
    """300 steps push every key once; what the switch adds and what comes twice is not in it."""
    updates = {(row["job"], row["key"]): row for row in rows(golden, "updates")}
    assert updates[4, DENSE[-1]] == {"job": 4, "ps": 1, "key": DENSE[-1], "updates": 300}
    keys = {key for job, key in updates if job == 4}
    assert keys == set(DENSE) - set(SERVED_IN_MIXED)
    assert {key for job, key in updates if job == 2} == set(BATCH.tolist()) == {*DENSE, *HINTED}
    assert {job for job, _ in updates} == {2, 3, 4, 5, 6}


def test_the_hot_set_ranks_keys_by_updates(golden: GoldenRun) -> None:
    """Arms without offload updated all keys 300 times each, offload and offload-proxy the cold ones."""
    hot = hotset.build([golden.folder / "updates.parquet"], top_k=60)
    cold = sorted(set(DENSE) - set(SERVED_IN_MIXED))
    third, last = hot.row(2, named=True), hot.row(59, named=True)
    total = 1500 * 54 + 900 * 18
    share = pytest.approx(1500 / total)
    assert third == {
        "rank": 3,
        "key": cold[2],
        "updates": 1500,
        "share": share,
        "lane": third["lane"],
        "dim": 1,
    }
    assert (last["rank"], last["updates"], last["share"]) == (60, 900, pytest.approx(900 / total))
    lanes = dict(zip(hot["key"].to_list(), hot["lane"].to_list(), strict=True))
    # The top five bits of key * 0x9E3779B97F4A7C15 mod 2^64.
    assert all(lane == (key * 0x9E3779B97F4A7C15 % 2**64) >> 59 for key, lane in lanes.items())


@pytest.mark.parametrize(("attempts", "logged"), [(1, 1), (3, 3), (255, 255), (300, 255)])
def test_logged_attempts_are_limited_to_255(tmp_path: Path, attempts: int, logged: int) -> None:
    logs = WorkerLogs(tmp_path, 1, 0)
    rows = np.zeros(1, ROW)
    rows["op"], rows["attempts"] = Op.PUSH, attempts
    logs.write_rpcs(rows, Origin(1, 2, "baseline", 0, 0.5, 0))
    assert pl.read_parquet(tmp_path / "rpc-worker-1-0.parquet")["attempts"].to_list() == [logged]


def test_a_call_that_is_sent_again_counts_from_its_first_transmission(tmp_path: Path) -> None:
    world = Timed(3, 1, 2, [1], BATCH)
    client = world.clients[1]
    world.now = 1_000_000
    client.start_empty_rpc(1)
    first = client.transmit()
    due = client.deadline()
    assert first is not None and due is not None
    world.now = due
    client.wake(due)
    again = client.transmit()
    assert again is not None and bytes(again[0]) == bytes(first[0])
    out = world.server.handle(bytes(again[0]), due, due, None)
    assert out is not None
    client.receive(bytes(out[1]), due + 50_000, due + 50_000)
    logs = WorkerLogs(tmp_path, 3, 0)
    logs.write_rpcs(client.records, Origin(3, 1, "baseline", 0, 0.5, 0))
    row = pl.read_parquet(tmp_path / "rpc-worker-3-0.parquet").row(0, named=True)
    assert (row["attempts"], row["t_send_us"]) == (2, 1_000)
    assert row["n_tx_us"] == pytest.approx((due - 1_000_000) / 1000 + 50)
