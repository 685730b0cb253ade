"""Answers of a rendezvous to its clients; an invalid request affects no other client."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hotline
from foundation.errors import HotlineError
from hotline_scripts import lines as lines_module
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.kv.connection import Connection, NotConnected
from hotline_scripts.kv.launch import down
from hotline_scripts.lines import MAX_LINE_BYTES, MessageTooLong
from hotline_scripts.script_session import Terms
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions
from tests.harness.loopback import RunningRendezvous

TABLES = {"a": [3, 1, 1.0]}


def answers_to(running: RunningRendezvous, *lines: bytes) -> list[dict[str, Any]]:
    """Return the answer to each line."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect(str(running.place))
        found = []
        with sock.makefile("rb") as answers:
            for line in lines:
                sock.sendall(line + b"\n")
                found.append(json.loads(answers.readline()))
        return found


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": 1, "cmd": "dance"}',
        b'{"id": 1, "cmd": "barrier"}',
        b'{"id": 1, "cmd": "join"}',
        b'{"id": 1, "cmd": "join", "tables": 3}',
        b'{"id": 1, "cmd": "join", "tables": {"a": [0, 1, 1.0]}}',
        b'{"id": 1, "cmd": "join", "tables": {"a": [3, 1, 1.0]}, "rank": "x"}',
        b'{"id": 1, "cmd": ["join"]}',
    ],
)
def test_an_invalid_request_gets_an_error_and_the_next_is_served(
    running: RunningRendezvous, line: bytes
) -> None:
    [answer] = answers_to(running, line)
    assert answer["id"] == 1 and answer["error"] and "gone" not in answer
    [joined] = answers_to(running, json.dumps({"id": 2, "cmd": "join", "tables": TABLES}).encode())
    assert (joined["rank"], joined["size"]) == (0, 2)


def test_lines_that_are_no_requests_end_nothing(running: RunningRendezvous) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(running.place))
        sock.sendall(b"no JSON\n[]\n" + b"[" * 100_000 + b"\n" + b"x" * 100_000)
    [found] = answers_to(running, b'{"id": 5, "cmd": "who"}')
    assert found == {"id": 5, "pid": os.getpid(), "workers": 0}


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        (b'{"id": 1, "cmd": "who", "more": "' + b"x" * MAX_LINE_BYTES + b'"}', f"{MAX_LINE_BYTES:,} bytes"),
        (b'{"id": 1, "cmd": "who", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "RecursionError"),
        (b"no JSON", "no JSON"),
    ],
    ids=["long", "deep", "no JSON"],
)
def test_a_line_that_cannot_be_read_gets_an_error_and_the_next_is_served(
    running: RunningRendezvous, line: bytes, reported: str
) -> None:
    refused, found = answers_to(running, line, b'{"id": 5, "cmd": "who"}')
    assert "id" not in refused and reported in refused["error"]
    assert found == {"id": 5, "pid": os.getpid(), "workers": 0}


def test_messages_of_any_length_that_a_script_sends_arrive_or_are_refused_before(
    running: RunningRendezvous,
) -> None:
    """A declaration, an initialisation, metrics, and counts of saturated values, of over 64 KiB each."""
    tables = {f"{'x' * 70_000}-{number}": (2, 1) for number in range(2)}
    with (
        hotline.Worker(tables, scale=1.0, connect=running.place, rank=0) as kv,
        hotline.Worker(tables, scale=1.0, connect=running.place, rank=1) as other,
    ):
        first_table = min(tables)
        assert kv.init(np.ones(2, np.float32), first_table)
        other.push([0], np.full(1, 3e9, np.float32), first_table)
        metrics = {f"metric {number}": float(number) for number in range(10_000)}
        kv.report(loss=1.0, **metrics)
        with pytest.raises(MessageTooLong, match=f"^report: .* {MAX_LINE_BYTES:,} bytes"):
            kv.report(loss=1.0, **{"x" * MAX_LINE_BYTES: 0.0})
        kv.report(loss=2.0)
        wait_for(lambda: len(running.reports) == 2)
        assert [each["metrics"]["loss"] for each in running.reports] == [1.0, 2.0]
        assert running.reports[0]["metrics"] == {"loss": 1.0, **metrics}


WORDS = (
    "id", "cmd", "command", "number", "rank", "report", "arm", "metrics", "gone", "note", "error", "self",
    "timeout_s", "tables", "values", "worker", "name", "steps", "is_first", "", "\n", "\ud800",
)  # fmt: skip
"""Field names of the protocol and of its Python, and names that JSON escapes."""


def test_a_metric_named_like_a_request_field_is_reported_and_answers_no_request(
    running: RunningRendezvous,
) -> None:
    """Numbers that are ids of requests release no barrier, which waits for both workers."""
    with (
        hotline.Worker({"a": (3, 1)}, connect=running.place, rank=0) as first,
        hotline.Worker({"a": (3, 1)}, connect=running.place, rank=1) as second,
        ThreadPoolExecutor() as pool,
    ):
        for name in WORDS:
            earlier, next_id = len(running.reports), first._connection._last_id + 1
            for request_id in range(next_id - 2, next_id + 2):
                first.report(loss=0.5, **{name: request_id})
            waiting = pool.submit(first.barrier)
            wait_for(lambda: len(running.reports) == earlier + 4)  # noqa: B023
            wait_for(lambda: running.waiting_ranks == [0])
            assert not waiting.done()
            second.barrier()
            waiting.result(PATIENCE_S)
            last = running.reports[-1]
            assert (last["rank"], last["report"], set(last)) == (
                0,
                earlier + 3,
                {"rank", "report", "metrics"},
            )
            assert last["metrics"] == {"loss": 0.5, name: next_id + 1}


def test_metrics_that_are_no_numbers_are_refused(running: RunningRendezvous) -> None:
    wrong: list[object] = [None, 3, {}, {"accuracy": 1.0}, {"loss": "x"}, {"loss": True}, {"loss": 1e400}]
    lines = [
        json.dumps({"id": number, "cmd": "report", "metrics": each}).encode()
        for number, each in enumerate(wrong, start=2)
    ]
    lines.append(b'{"id": 99, "cmd": "report", "loss": 1.0}')
    join = json.dumps({"id": 1, "cmd": "join", "tables": TABLES}).encode()
    _, *refused = answers_to(running, join, *lines)
    assert len(refused) == 8 and all("error" in answer for answer in refused)
    assert running.reports == []


@given(
    lines=st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=6),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=40),
    rest=st.binary(max_size=3).map(lambda line: line.replace(b"\n", b"")),
)
def test_lines_do_not_depend_on_how_their_bytes_are_split(
    lines: list[bytes], cuts: list[int], rest: bytes
) -> None:
    """Those of more than 6 bytes are None; what follows the last end is no line."""
    octets = b"".join(line + b"\n" for line in lines) + rest

    async def read() -> list[bytes | None]:
        reader = asyncio.StreamReader()
        reads = iter(cuts)

        async def read_some(n: int) -> bytes:
            return await asyncio.StreamReader.read(reader, next(reads, n))

        with (
            mock.patch.object(reader, "read", read_some),
            mock.patch.object(lines_module, "MAX_LINE_BYTES", 6),
        ):
            reader.feed_data(octets)
            reader.feed_eof()
            return [line async for line in lines_module.read_lines(reader)]

    assert asyncio.run(read()) == [line if len(line) <= 6 else None for line in lines]


def test_a_failed_start_of_servers_is_reported_and_may_be_repeated(
    running: RunningRendezvous, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = running.cluster.begin

    async def fails(tables: EmbeddingTables) -> Terms:
        raise HotlineError(f"no memory for {tables.space.size} parameters")

    monkeypatch.setattr(running.cluster, "begin", fails)
    connection = Connection(running.place)
    with pytest.raises(NotConnected, match=mentions(3, "parameters")):
        connection.ask("join", tables=TABLES, rank=None)
    monkeypatch.setattr(running.cluster, "begin", begin)
    assert connection.ask("join", tables=TABLES, rank=None)["rank"] == 0
    connection.close()
    wait_for(lambda: running.rendezvous.workers == 0)


def test_a_client_without_workers_may_end_the_rendezvous(running: RunningRendezvous) -> None:
    connection = Connection(running.place)
    assert connection.ask("down") == {"id": 1, "pid": os.getpid(), "workers": 0, "vanished": 0}
    assert running.rendezvous.end_requested.is_set()
    connection.close()


def test_down_without_a_running_session_says_that_nothing_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTLINE_CONNECT", str(tmp_path / "nobody.sock"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert down() == f"nothing is up at {tmp_path / 'nobody.sock'}"
