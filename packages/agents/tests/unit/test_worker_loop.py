"""The worker's socket loop, compiled and plain: it runs operations, and returns when it must."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from types import FrameType

import numpy as np
import pytest

from foundation.compiled import pinned
from foundation.logs.rpc_row import ROW
from foundation.protocol import codec
from foundation.protocol.codec import Caller, Message
from foundation.protocol.header import HEADER_BYTES, Op
from hosts.agent import Commands, SignalPipe
from hosts.keys import KeySpace
from hosts.sockets import open_udp
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.udp import BURST, make_udp
from hotline_agents.worker.compiled_loop import (
    ENDED,
    INTERRUPTED,
    LOG_FULL,
    TIMED_OUT,
    make_wire,
    operate,
    wait,
)
from hotline_agents.worker.job_socket import JobSocket, LoopContext, Operate
from nativekit.libc import ppoll
from nativekit.plain import plain
from nativekit.records import records
from switch_harness.waiting import PATIENCE_S
from tests.harness.wire import reply

SIZE = 200
POSITIONS = np.arange(SIZE)
NS = 1_000_000_000


class Echo(threading.Thread):
    """Answers pulls with the lower halves of the keys.

    An RPC's first answer comes twice: the first copy lacks `spoiled` bytes.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(PATIENCE_S)
        self.address = self.sock.getsockname()
        self.spoiled = 0
        self.answered: set[int] = set()
        self.pushed: dict[int, int] = {}

    def run(self) -> None:
        while True:
            datagram, source = self.sock.recvfrom(2048)
            if not datagram:
                return
            request = codec.parse(datagram)
            answer = self.answer(request)
            if self.spoiled and request.header.seq not in self.answered:
                self.sock.sendto(answer[: -self.spoiled], source)
            self.answered.add(request.header.seq)
            self.sock.sendto(answer, source)

    def answer(self, request: Message) -> bytes:
        header, keys, deltas = request
        if deltas is not None and keys is not None:
            self.pushed |= zip(keys.tolist(), deltas.tolist(), strict=True)
        return reply(header, 0 if keys is None else keys.astype(np.uint32), ps_proc=7, residence=9)


LOOPS: list[Operate] = [operate, plain(operate)]


class Bench:
    def __init__(self, stack: ExitStack, run_operation: Operate) -> None:
        self.server = Echo()
        self.server.start()
        self.sock = stack.enter_context(open_udp(("127.0.0.1", 0)))
        stack.callback(self.stop)
        self.operate = run_operation
        self.udp = make_udp()
        self.ends = os.pipe(), os.pipe()
        for end in (end for pipe in self.ends for end in pipe):
            stack.callback(os.close, end)
        (commands, self.command), (signals, self.signal) = self.ends
        self.wire = make_wire(self.sock.fileno(), [self.server.address], commands, signals)
        self.client = HotsetClient(Caller(1, 2, 3), 1, KeySpace(SIZE), time.monotonic_ns)
        self.answered = np.zeros(SIZE, np.bool_)

    def stop(self) -> None:
        self.sock.sendto(b"", self.server.address)
        self.server.join()
        self.server.sock.close()

    def run(self, timeout_s: float = PATIENCE_S) -> int:
        until = time.monotonic_ns() + int(timeout_s * NS)
        return self.operate(self.client.reference, pinned(self.udp), pinned(self.wire), until)


@pytest.fixture(params=LOOPS, ids=["compiled", "plain"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(stack, request.param)


def test_a_wait_polls_three_descriptors_with_the_given_timeout() -> None:
    wire = make_wire(5, [("127.0.0.1", 1)], 6, 7)
    for timeout_ns, reported in ((1_500_000_007, [1, 500_000_007]), (20, [0, 20]), (-3, [0, 0])):
        assert not plain(wait, {ppoll: lambda *_: 0})(wire, timeout_ns)
        assert wire.state.timeout.tolist() == reported
    assert wire.state.pollfds.tolist() == [5, select.POLLIN, 6, select.POLLIN, 7, select.POLLIN]


def test_operations_run_to_their_end(bench: Bench) -> None:
    client = bench.client
    client.pull(5, POSITIONS)
    assert bench.run() == ENDED and client.values.tolist() == list(range(SIZE))
    client.push(6, POSITIONS, POSITIONS.astype(np.uint32) + np.uint32(2**31), bench.answered)
    assert bench.run() == ENDED and bench.answered.all()
    assert bench.server.pushed == {key: 2**31 + key for key in range(SIZE)}
    client.start_empty_rpc(0)
    assert bench.run() == ENDED and client.idle
    rows = client.records
    assert rows["op"].tolist() == [Op.PULL] * 7 + [Op.PUSH] * 7 + [Op.EMPTY]
    assert rows["iteration"].tolist() == [5] * 7 + [6] * 7 + [0]
    assert rows["lanes"].tolist() == ([32] * 6 + [8]) * 2 + [0]
    request, response = (rows[name] - HEADER_BYTES for name in ("request_bytes", "response_bytes"))
    assert request.tolist() == [8 * 32] * 6 + [8 * 8] + [12 * 32] * 6 + [12 * 8, 0]
    assert response.tolist() == [4 * 32] * 6 + [4 * 8] + [0] * 8
    assert (rows["ps_proc"] == 7).all() and (rows["residence_us"] == 9).all()
    assert (rows["w_proc"] > 0).all() and (rows["w_queue"] >= 0).all()
    assert (rows["t0"] < rows["arrival"]).all()


def test_an_invalid_rpc_is_counted(bench: Bench) -> None:
    bench.server.spoiled = 1
    bench.client.pull(1, POSITIONS)
    assert bench.run() == ENDED
    assert (bench.client.malformed, bench.client.values.tolist()) == (7, list(range(SIZE)))


def test_the_loop_keeps_time(bench: Bench) -> None:
    began = time.monotonic_ns()
    assert bench.run(0.05) == TIMED_OUT
    assert time.monotonic_ns() - began >= 50_000_000


@pytest.mark.parametrize("end", ["command", "signal"])
def test_the_loop_is_called_back(bench: Bench, end: str) -> None:
    os.write(getattr(bench, end), b"x")
    assert bench.run() == INTERRUPTED


def test_a_loop_that_is_never_idle_is_called_back(bench: Bench) -> None:
    """The loop does not wait while datagrams keep coming, but polls its control sockets."""
    stop = threading.Event()
    to = bench.sock.getsockname()

    def disturb() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while not stop.is_set():
                sock.sendto(b"noise", to)

    noise = threading.Thread(target=disturb)
    noise.start()
    try:
        os.write(bench.command, b"x")
        assert bench.run() == INTERRUPTED
    finally:
        stop.set()
        noise.join()


def test_the_loop_returns_before_the_log_overflows(bench: Bench) -> None:
    """The loop returns when the log has no room for a burst. With a window of 1 a row is added at a time."""
    bench.client = client = HotsetClient(Caller(1, 2, 3), 1, KeySpace(SIZE), time.monotonic_ns, window=1)
    client.take_records(records(BURST + 2, ROW))
    client.pull(1, POSITIONS)
    assert bench.run() == LOG_FULL
    assert len(client.take_records(records(BURST + 3, ROW))) == 3
    assert bench.run() == ENDED and len(client.records) == 4


class OnePull:
    def __init__(self, client: HotsetClient) -> None:
        self._client = client
        self._begun = False
        self.finished = False

    def deadline(self) -> int | None:
        return 0

    def wake(self, now: int) -> None:
        if not self._begun:
            self._client.pull(1, POSITIONS)
            self._begun = True
        self.finished = self._client.idle


class Stopped(Exception):
    """Raised by the signal's handler."""


@pytest.mark.parametrize("run_operation", LOOPS, ids=["compiled", "plain"])
def test_a_signal_ends_a_run_at_once(run_operation: Operate) -> None:
    """The PS is silent, so that only the signal can end it."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped

    with ExitStack() as stack:
        silent = stack.enter_context(open_udp(("127.0.0.1", 0)))
        sock = stack.enter_context(open_udp(("127.0.0.1", 0)))
        end, other = os.pipe()
        stack.callback(os.close, end)
        stack.callback(os.close, other)
        stack.callback(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, stop))
        pipe = stack.enter_context(closing(SignalPipe()))
        sockets = LoopContext(make_udp(), Commands(end), pipe, run_operation)
        job_socket = JobSocket(sock, [silent.getsockname()], sockets)
        client = HotsetClient(Caller(1, 2, 3), 1, KeySpace(SIZE), time.monotonic_ns)

        def interrupt() -> None:
            select.select([silent], [], [], PATIENCE_S)
            os.kill(os.getpid(), signal.SIGUSR1)

        killer = threading.Thread(target=interrupt)
        killer.start()
        with pytest.raises(Stopped):
            job_socket.run(OnePull(client), client, lambda: None, lambda: None)
        killer.join()
