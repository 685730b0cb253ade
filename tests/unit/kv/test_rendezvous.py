"""Answers of a rendezvous to its clients; an invalid request affects no other client."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from foundation.errors import HotlineError
from hotline.kv.connection import Connection, NotConnected
from hotline.kv.launch import down
from switch_harness.waiting import PATIENCE_S, wait_for
from tests.harness.loopback import RunningRendezvous
from topologies.embedding_tables import Tables
from topologies.rendezvous import Terms

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
        sock.sendall(b"no JSON\n[]\n" + b"x" * 100_000)
    [found] = answers_to(running, b'{"id": 5, "cmd": "who"}')
    assert found == {"id": 5, "pid": os.getpid(), "workers": 0}


def test_a_failed_start_of_servers_is_reported_and_may_be_repeated(
    running: RunningRendezvous, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = running.cluster.begin

    async def fails(tables: Tables) -> Terms:
        raise HotlineError(f"no memory for {tables.size} parameters")

    monkeypatch.setattr(running.cluster, "begin", fails)
    connection = Connection(running.place)
    with pytest.raises(NotConnected, match="no memory for 3 parameters"):
        connection.ask("join", tables=TABLES, rank=None)
    monkeypatch.setattr(running.cluster, "begin", begin)
    assert connection.ask("join", tables=TABLES, rank=None)["rank"] == 0
    connection.close()
    wait_for(lambda: running.rendezvous.workers == 0)


def test_a_client_without_workers_may_end_it(running: RunningRendezvous) -> None:
    connection = Connection(running.place)
    assert connection.ask("down") == {"id": 1, "pid": os.getpid(), "workers": 0, "vanished": 0}
    assert running.rendezvous.end_requested.is_set()
    connection.close()


def test_down_where_nothing_is_up_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLINE_CONNECT", str(tmp_path / "nobody.sock"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert down() == f"nothing is up at {tmp_path / 'nobody.sock'}"
