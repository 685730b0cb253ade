"""Fig. 9: servers with each way to wait answer all callers; the figure shows known delays."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.record import AnalysisError
from foundation.designs.hotset import BASELINE, OFFLOAD, OFFLOAD_PROXY, PROXY, settings_of
from foundation.protocol import codec
from foundation.protocol.codec import Message
from foundation.protocol.header import RESPONSE, WINDOW, Header, Op, unpack
from hotline_paper.connections.figure import delay_against_connections
from hotline_paper.connections.settings import ACTIVE_CALLERS, ConnectionSetting, settings
from hotline_paper.connections.waiting import WAYS
from switch_harness.wording import mentions
from tests.harness.agents import Agent

JOB, EPOCH = 2, 1


@contextmanager
def started(folder: Path, module: str, **config: object) -> Iterator[Agent]:
    config = {"job": JOB, "epoch": EPOCH, "address": "127.0.0.1", **config}
    process = Agent(f"hotline_paper.connections.{module}", config, folder)
    try:
        assert process.first == {"ready": True}
        yield process
    finally:
        assert process.close() == 0


@pytest.fixture
def port() -> int:
    """Return a free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        found: int = sock.getsockname()[1]
        return found


def request(caller: int, turn: int) -> bytes:
    head = Header(op=Op.EMPTY, job=JOB, worker=caller + 1, epoch=EPOCH, ps=0, seq=WINDOW + turn, t0=7)
    return bytes(codec.build(Message(head)))


def test_a_server_answers_every_connection(tmp_path: Path, port: int) -> None:
    """Each way works with simultaneous requests, and after another way whose sockets were open."""
    with ExitStack() as stack:
        server = stack.enter_context(started(tmp_path, "server", port=port))
        callers = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(70)]
        for caller in callers:
            caller.bind(("127.0.0.1", 0))
            caller.settimeout(20)
        peers = [caller.getsockname() for caller in callers]
        server.call(cmd="listen", way="epoll", peers=peers[:3])
        turns = count()
        for way in WAYS:
            opened = server.call(cmd="listen", way=way, peers=peers)["sockets"]
            assert opened == (1 if way == "shared" else len(callers)), way
            for turn in islice(turns, 3):
                for number, caller in enumerate(callers):
                    caller.sendto(request(number, turn), ("127.0.0.1", port))
                for number, caller in enumerate(callers):
                    answer = unpack(caller.recv(2048))
                    assert (answer.op, answer.flags & RESPONSE, answer.t0) == (Op.EMPTY, RESPONSE, 7)
                    assert (answer.worker, answer.seq) == (number + 1, WINDOW + turn)
            assert server.call(cmd="stats")["rpcs"] == (turn + 1) * len(callers)


def test_an_unknown_way_to_wait_is_named(tmp_path: Path, port: int) -> None:
    with started(tmp_path, "server", port=port) as server:
        answer = server.call(cmd="listen", way="select", peers=[])
        assert answer == {"error": "way 'select': expected one of scan, poll, epoll, shared"}


@pytest.mark.soak
def test_a_client_calls_equally_often_with_each_caller(tmp_path: Path, port: int) -> None:
    """Through the real server; 3 of 5 callers, in random order."""
    with ExitStack() as stack:
        server = stack.enter_context(started(tmp_path, "server", port=port))
        first = port + 1 if port < 60_000 else port - 10
        client = stack.enter_context(
            started(tmp_path, "client", first_port=first, callers=5, service=["127.0.0.1", port])
        )
        server.call(cmd="listen", way="shared", peers=[])
        found = client.call(cmd="measure", callers=3, rpcs=60, seed=1)
        assert 0 < found["p50"] <= found["p99"] and found["mean"] > 0
        assert server.call(cmd="stats")["rpcs"] == 60
        # Sequence numbers continue: a server drops duplicates.
        client.call(cmd="measure", callers=5, rpcs=10, seed=2)
        assert server.call(cmd="stats")["rpcs"] == 70


def test_a_caller_without_an_answer_is_named(tmp_path: Path, port: int) -> None:
    first = port + 1 if port < 60_000 else port - 10
    with started(tmp_path, "client", first_port=first, callers=1, service=["127.0.0.1", port]) as client:
        answer = client.call(cmd="measure", callers=1, rpcs=1, seed=1)
        assert answer == {"error": "caller 1 of 1 had no answer in 2 s"}


def test_settings_have_each_combination_once() -> None:
    found = settings([1, ACTIVE_CALLERS, 64])
    # All call in four arms; of 64 connections some are idle in two.
    assert len(found) == len(set(found)) == 4 * (3 * 4 + 2)
    assert {each.callers for each in found if each.connections == 64} == {ACTIVE_CALLERS, 64}
    assert ConnectionSetting("scan", 1, True, BASELINE).callers == 1


def measured(rounds: int) -> pl.DataFrame:
    """Return delays of 50 µs, half a µs per connection, and a µs per round for *scan*; of 40 µs otherwise."""
    rows = []
    for number, way, connections in product(range(rounds), WAYS, (1, 16, 256, 4096)):
        for active in (True,) if connections <= ACTIVE_CALLERS else (True, False):
            for arm in (BASELINE, PROXY, OFFLOAD, OFFLOAD_PROXY):
                is_scan = way == "scan" and not settings_of(arm).proxies
                mean_us = number + (50 + connections / 2 if is_scan else 40.0)
                rows.append((number, way, connections, active, arm.name, mean_us))
    columns = ["round", "way", "connections", "active", "arm", "mean_us"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_the_figure_has_means_intervals_and_slopes(tmp_path: Path) -> None:
    file = tmp_path / "c.parquet"
    measured(7).write_parquet(file)
    figure = delay_against_connections(file)
    assert [panel.title for panel in figure.panels] == [
        "baseline: all call", "baseline: 16 call, the others are idle",
        "proxy: all call", "proxy: 16 call, the others are idle",
        "offload: all call", "offload-proxy: all call",
    ]  # fmt: skip
    for panel in figure.panels:
        assert [series.name for series in panel.series] == list(WAYS)
        scan, *others = panel.series
        proxied = panel.title.startswith(("proxy", "offload-proxy"))
        expected = [43, 43, 43, 43] if proxied else [53.5, 61, 181, 2101]
        assert list(scan.y) == pytest.approx(expected)
        assert list(np.asarray(scan.x)) == [1, 16, 256, 4096]
        assert all(list(other.y) == pytest.approx([43] * 4) for other in others)
        assert scan.low is not None and scan.high is not None
        # Of seven rounds a µs apart the mean is known to within two or three.
        assert (scan.low < scan.y).all() and (scan.y < scan.high).all() and (scan.high - scan.low < 5).all()
    slope = {key[:3]: value for key, value in figure.facts.items() if key[3] == "slope"}
    assert slope["scan", "16 call, the others are idle", "baseline"] == pytest.approx(0.5)
    for arm, expected_slope in (("baseline", 0.5), ("offload", 0.5), ("proxy", 0), ("offload-proxy", 0)):
        assert slope["scan", "all call", arm] == pytest.approx(expected_slope, abs=1e-9)
    assert slope["epoll", "all call", "baseline"] == pytest.approx(0, abs=1e-9)


def test_with_few_rounds_the_bounds_are_the_lowest_and_highest_round(tmp_path: Path) -> None:
    file = tmp_path / "c.parquet"
    measured(3).write_parquet(file)
    [series, *_] = delay_against_connections(file).panels[0].series
    assert series.low is not None and series.high is not None
    assert (series.low[0], series.y[0], series.high[0]) == pytest.approx((50.5, 51.5, 52.5))


def test_a_missing_file_is_one_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=mentions("none.parquet", "read")):
        delay_against_connections(tmp_path / "none.parquet")
