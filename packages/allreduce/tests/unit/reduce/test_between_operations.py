"""Workers that push together, between their operations: nothing of their own is sent, others are answered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from foundation.designs.interface import Design
from foundation.logs.rpc_row import ROW
from foundation.protocol.codec import Caller
from hosts.keys import KeySpace
from hosts.sockets import open_udp
from hotline_agents.udp import make_udp
from hotline_agents.worker.compiled_loop import operate
from hotline_agents.worker.job_socket import JobSocket, LoopContext
from hotline_agents.worker.ops import plain_ops
from hotline_allreduce.dense.client import DenseClient
from hotline_allreduce.dense.packet import ACK, HEADER, DensePacket, parse
from hotline_allreduce.psdense import design as psdense
from hotline_allreduce.ring import design as ring
from hotline_allreduce.ring.agents import AGENTS
from nativekit.plain import plain
from nativekit.records import records
from packages.allreduce.tests.harness.dense import DenseTestbed

VALUES = 100


@pytest.mark.parametrize("design", [psdense.DESIGN, ring.DESIGN], ids=lambda design: design.name)
def test_a_pull_sends_nothing_before_and_after_pushes(design: Design) -> None:
    testbed = DenseTestbed(design, 2, values=VALUES)
    positions, deltas = np.arange(VALUES), np.ones(VALUES, np.uint32)
    for client in testbed.clients:
        client.set_worker_count(2)
        client.push(0, positions, deltas, np.zeros(VALUES, np.bool_))
    testbed.settle()
    assert [client.model.tolist() for client in testbed.clients] == [[2] * VALUES] * 2
    testbed.wire.clear()
    while any(client.transmit() for client in testbed.clients):  # the last acknowledgements
        pass
    for client in testbed.clients:
        client.pull(1, positions)
        assert client.idle and client.transmit() is None and client.deadline() is None
        assert client.values.tolist() == [2] * VALUES


@pytest.fixture
def pair() -> Iterator[list[tuple[DenseClient, JobSocket, Any]]]:
    """Make two workers of a ring on loopback, in plain Python."""
    run: Any = plain(operate)
    idle: Any = _Idle()
    with ExitStack() as stack:
        socks = [stack.enter_context(open_udp(("127.0.0.1", 0))) for _ in range(2)]
        peers = [("127.0.0.1", 9), *(sock.getsockname() for sock in socks)]
        found: list[tuple[DenseClient, JobSocket, Any]] = []
        for worker, sock in enumerate(socks, start=1):
            client = AGENTS.client(
                Caller(ring.RING.job, worker, 1), 1, KeySpace(VALUES), time.monotonic_ns,
                ops=plain_ops(),
            )  # fmt: skip
            line = JobSocket(sock, peers, LoopContext(make_udp(), idle, idle, run))
            found.append((client, line, sock))
        yield found


class _Idle:
    """A source of neither commands nor signals."""

    fd = -1


def test_a_worker_that_has_ended_acknowledges_retransmitted_chunks(
    pair: list[tuple[DenseClient, JobSocket, Any]],
) -> None:
    """Its log has no room then, as behind a block: nothing is written there."""
    clients = [client for client, _, _ in pair]
    vectors = [np.arange(VALUES, dtype=np.int32), np.full(VALUES, 5, np.int32)]
    for client, vector in zip(clients, vectors, strict=True):
        client.all_reduce(vector, 2)
    while not all(client.idle for client in clients):
        for client, line, _ in pair:
            line.drain_between_blocks(client)
    assert [client.result.tolist() for client in clients] == [(vectors[0] + vectors[1]).tolist()] * 2
    (first, line, sock), (second, _, other) = pair
    while (end := second.transmit()) is not None:
        assert end  # the last acknowledgements, which are not needed any more
    _drain(sock), _drain(other)

    first.take_records(records(0, ROW))
    again = second.state.sent.tobytes()[: HEADER.size + 50 * 4]
    other.sendto(again, sock.getsockname())
    line.drain_between_blocks(first)
    answer = parse(other.recv(2048))
    assert (answer.kind, answer.chunk, answer.worker) == (ACK, parse(again).chunk, 0)
    assert first.unexpected == first.malformed == 0 and len(first.records) == 0


def _drain(sock: Any) -> list[DensePacket]:
    found = []
    while True:
        try:
            found.append(parse(sock.recv(2048)))
        except BlockingIOError:
            return found
