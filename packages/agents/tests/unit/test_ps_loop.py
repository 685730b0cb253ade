"""The PS's compiled loop over the loopback interface, and its given service time."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import numpy as np
import pytest

import hosts.sockets
from foundation.compiled import pinned
from foundation.protocol import codec, control
from foundation.protocol.addressing import worker_udp_port
from foundation.protocol.codec import Message
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import HOTLINE_PORT, MAX_EPOCHS, PS_RPC_PORT, VERSION, Op
from hosts.agent import Commands
from hosts.keys import KeySpace
from hosts.sockets import Address
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.ps import service_time
from hotline_agents.ps.compiled_loop import TIMED_OUT, answer_burst, make_sources, serve
from hotline_agents.ps.server_sockets import ServerSockets
from hotline_agents.ps.service_time import make_service
from hotline_agents.udp import make_udp
from nativekit.plain import plain
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import says
from tests.harness.wire import reply, rpc

NET = f"127.86.{os.getpid() % 250}"
"""Addresses of this process; other processes run tests at the same time."""
HOST = f"{NET}.201"
SERVICE = (f"{NET}.202", HOTLINE_PORT)
WORKERS = [(f"{NET}.{number}", worker_udp_port(1)) for number in (1, 2)]
"""Addresses that get a connected socket, as those of a run's workers in job 1 do."""


class Served:
    def __init__(self, serve: Any = serve, **cost: int) -> None:
        self.core: ParameterServer[Address] = ParameterServer(0, 1, KeySpace(100), {1: 1, 2: 1}, lambda: 0)
        self.sockets = ServerSockets(self.core, HOST, SERVICE, WORKERS, make_service(**cost), serve=serve)
        self._input, self._output = os.pipe()
        self.commands = Commands(self._input)
        self._thread = threading.Thread(target=self.sockets.run_until_command, args=(self.commands,))
        self._thread.start()

    def close(self) -> None:
        """Stop serving, so that its counters can be read."""
        os.write(self._output, b"quit\n")
        self._thread.join(PATIENCE_S)
        self.sockets.close()
        os.close(self._output)
        os.close(self._input)
        assert not self._thread.is_alive() and self.commands.next() == "quit"


@contextmanager
def bound(address: Address) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(PATIENCE_S)
        yield sock


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def caller(number: int) -> AbstractContextManager[socket.socket]:
    return bound((f"{NET}.{number}", 0))


def request(op: Op, keys: list[int], seq: int, worker: int, job: int = 1) -> bytes:
    values = [key + 1 for key in keys] if op == Op.PUSH else None
    return rpc(op, keys, values, job=job, worker=worker, epoch=1, seq=seq)


def call(sock: socket.socket, datagram: bytes) -> Message:
    sock.sendto(datagram, (HOST, HOTLINE_PORT))
    return codec.parse(sock.recv(2048))


@pytest.mark.parametrize("run", [serve, plain(serve)], ids=["compiled", "plain"])
def test_workers_are_answered_each_on_its_own_socket(run: Any) -> None:
    served = Served(run)
    with closing(served), bound(WORKERS[0]) as one, bound(WORKERS[1]) as two:
        before = open_descriptors()
        call(one, request(Op.PUSH, [3, 4], 64, 1))
        for turn in (1, 2):
            pulled = call(two, request(Op.PULL, [4, 3, 5], 64 * turn, 2))
            assert pulled.values is not None and pulled.values.tolist() == [5, 4, 0]
        call(two, request(Op.EMPTY, [], 64, 2, job=2))
        one.sendto(b"nonsense", (HOST, HOTLINE_PORT))
        call(one, request(Op.EMPTY, [], 65, 1))
        assert open_descriptors() == before + len(WORKERS)
    assert served.core.malformed == 1
    counters = served.core.server.counters
    assert (counters[1].rpcs, counters[2].rpcs, counters[1].applied_lanes) == (4, 1, 2)
    assert min(counters[1].proc_wall_ns, counters[1].proc_cpu_ns, counters[2].proc_wall_ns) > 0
    assert sum(map(len, served.core.server.collect_connection_records())) == 5
    # Each request is sent after the previous answer, and the nonsense may be read with the last one.
    assert served.sockets.bursts in (5, 6)


def test_invented_epochs_and_addresses_take_rows_of_their_worker_only_and_no_sockets() -> None:
    served, n_workers = Served(), 2
    served.core.server.state.header.n_workers = n_workers
    with closing(served), bound(WORKERS[0]) as worker:
        call(worker, request(Op.PUSH, [3], 64, 1))
        call(worker, request(Op.EMPTY, [], 65, 1))  # by now the worker's socket is open
        before = open_descriptors()
        for epoch in range(2, 2 + 3 * MAX_EPOCHS):
            with caller(3) as rogue:  # from a new port each time
                call(rogue, rpc(Op.EMPTY, job=1, worker=2, epoch=epoch, seq=64))
                call(
                    rogue, rpc(Op.EMPTY, job=1, worker=2, epoch=10**9, seq=64 * epoch, iteration=64, t0=epoch)
                )
                for stranger in (0, n_workers + 1, 0x8000, 0xFFFE):
                    rogue.sendto(
                        rpc(Op.EMPTY, job=1, worker=stranger, epoch=epoch, seq=64), (HOST, HOTLINE_PORT)
                    )
        call(worker, request(Op.PUSH, [3], 128, 1))
        assert open_descriptors() == before
    assert served.core.server.state.header.n_callers == 1 + MAX_EPOCHS
    assert served.core.server.misdirected == 4 * 3 * MAX_EPOCHS
    assert served.core.stores[1].contents().values.sum() == 2 * 4


def test_a_server_without_a_free_descriptor_serves_a_worker_by_the_shared_socket(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object, **_options: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    served = Served()
    monkeypatch.setattr(hosts.sockets, "open_udp", fail)
    with closing(served), bound(WORKERS[0]) as worker:
        for turn in (1, 2):
            call(worker, request(Op.EMPTY, [], 64 * turn, 1))
    [record] = caplog.records
    assert says(record.getMessage(), WORKERS[0][0], os.strerror(errno.EMFILE))


@pytest.mark.parametrize("run", [serve, plain(serve)], ids=["compiled", "plain"])
def test_another_version_of_the_wire_is_reported_once(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(run)
    with closing(served), caller(1) as old, caller(2) as ours:
        for seq in range(64, 94):
            old.sendto(b"\1" + request(Op.PUSH, [3], seq, 1)[1:], (HOST, HOTLINE_PORT))
            call(ours, request(Op.EMPTY, [], seq, 2))
        host, port = old.getsockname()
    assert [record.getMessage() for record in caplog.records] == [
        f"{host}:{port} speaks version 1 of the wire and this server version {VERSION}: it is not answered; "
        "start both from the same version of Hotline"
    ]
    assert (served.core.malformed, served.core.server.counters[1].rpcs) == (30, 30)


@pytest.mark.parametrize("run", [serve, plain(serve)], ids=["compiled", "plain"])
@pytest.mark.parametrize("due_ns", [0, 3_000_000])
def test_the_loop_returns_at_its_deadline_and_not_when_the_server_is_due(run: Any, due_ns: int) -> None:
    core: ParameterServer[Address] = ParameterServer(0, 1, KeySpace(100), {1: 1}, lambda: 0)
    poll, start = select.epoll(), time.monotonic_ns()
    with closing(poll):
        parts = make_service(), make_udp(), make_sources(poll.fileno())
        references = [*map(pinned, parts)]
        core.server.state.header.due = start + due_ns  # what is due stays due: the server has nothing to do
        assert run(core.server.reference, *references, start + 20_000_000) == TIMED_OUT
    assert time.monotonic_ns() >= start + 20_000_000


def test_a_wake_up_without_a_datagram_answers_nothing() -> None:
    """A datagram with a wrong checksum wakes `epoll`, and is gone when it is read."""
    core: ParameterServer[Address] = ParameterServer(0, 1, KeySpace(100), {1: 1}, lambda: 0)
    sources, udp = make_sources(-1), make_udp()
    with caller(1) as sock:
        assert not plain(answer_burst)(core.server.state, make_service(), udp, sources, sock.fileno())
        assert (sources.state.fd, sources.state.n_received) == (sock.fileno(), 0)


def test_the_controller_is_answered() -> None:
    served = Served()
    with closing(served), caller(9) as sock:
        hello = Control(Command.HELLO, 1, 0, 1, 7, np.empty(0, dtype=np.uint64))
        sock.sendto(control.build(hello), (HOST, HOTLINE_PORT))
        assert control.parse(sock.recv(2048)).seq == 7


def test_a_key_moves_by_the_ps_s_own_rpcs() -> None:
    """The PS sends to the service's address, and receives on a port of its own."""
    served = Served()
    seed = Control(Command.SEED, 1, 0, 1, 7, np.array([3], dtype=np.uint64))
    with closing(served), caller(1) as worker, caller(9) as controller, bound(SERVICE) as service:
        call(worker, request(Op.PUSH, [3], 64, 1))
        controller.sendto(control.build(seed), (HOST, HOTLINE_PORT))
        datagram, ps = service.recvfrom(2048)
        assert ps == (HOST, PS_RPC_PORT)
        push = codec.parse(datagram)
        assert push.values is not None and push.values.sum() == 4  # in the lane of its key
        service.sendto(reply(push.header, served=push.header.live), ps)
        assert control.parse(controller.recv(2048)).status is Status.OK
    assert served.core.stores[1].contents().owned.tolist().count(False) == 1


def test_answers_carry_the_configured_service_time() -> None:
    served = Served(ns_per_rpc=2_000_000, ns_per_lane=50_000)
    with closing(served), caller(1) as sock:
        for seq, keys in ((64, [1]), (65, [1, 2, 3, 4])):
            header = call(sock, request(Op.PULL, keys, seq, 1)).header
            assert header.ps_proc == 2_000_000 + len(keys) * 50_000
        # Two that come together on one core: the second waits for the first.
        for seq in (66, 67):
            sock.sendto(request(Op.EMPTY, [], seq, 1), (HOST, HOTLINE_PORT))
        first, second = (codec.parse(sock.recv(2048)).header for _ in range(2))
        assert (first.seq, second.seq) == (66, 67)
        assert first.ps_proc == second.ps_proc == 2_000_000
    counters = served.core.server.counters[1]
    assert counters.proc_wall_ns == counters.proc_cpu_ns == 4 * 2_000_000 + 5 * 50_000


def test_lanes_that_the_switch_has_served_cost_a_server_nothing() -> None:
    served = Served(ns_per_rpc=2_000_000, ns_per_lane=50_000)
    with closing(served), caller(1) as sock:
        partly = rpc(Op.PUSH, [1, 2, 3, 4], [1] * 4, job=1, worker=1, epoch=1, seq=64, served=0b1010)
        answer = call(sock, partly).header
        assert (answer.ps_proc, answer.served) == (2_000_000 + 2 * 50_000, 0b1010)
    assert served.core.server.counters[1].applied_lanes == 2


def test_rpcs_go_to_the_core_that_is_free_first() -> None:
    service = make_service(ns_per_rpc=100, ns_per_lane=10, cores=2)
    begin = plain(service_time.assign_core)
    found = []
    for read, lanes in ((0, 0), (0, 5), (10, 0), (10, 0), (500, 1)):
        begin(service, read, lanes)
        found.append((int(service.header.start), int(service.header.due)))
    # Core 0 until 100, core 1 until 150, core 0 until 200, core 1 until 250; at 500 both are free.
    assert found == [(0, 100), (0, 150), (100, 200), (150, 250), (500, 610)]
