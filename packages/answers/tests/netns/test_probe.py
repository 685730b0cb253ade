"""`hotline probe` counts what servers of all kinds do: their requests, bytes and CPU time are known."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hotline_answers.probe import watch as watching
from hotline_answers.probe.builder import QUEUE_LENGTH
from hotline_answers.probe.report import HOSTS_FILE, LOG_FILE
from hotline_answers.probe.requests import UNKNOWN, SocketEvents, requests_of
from hotline_answers.probe.watch import ServerWatch, WatchedServer
from hotline_simulator.config import load_hosts
from packages.answers.tests.harness import probed_servers as servers
from packages.answers.tests.harness.probed_servers import ANSWER, BURN_S, KINDS, PIECE, REQUEST
from softswitch import libc
from softswitch.kernel import bpf
from softswitch.kernel.btf import Btf
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says, says_in_one_line
from tests.harness.cli import invoke, json_of

pytestmark = pytest.mark.netns

CLIENTS, TURNS = 3, 4
CLIENTS_OF = {"in pairs": 2, "connected": 1}  # of other servers, `CLIENTS`
FORKS = "forks"
PIDFD_GETFD = 438  # number of the system call
OF_TCP = [kind for kind, (_, protocol, _) in KINDS.items() if protocol == socket.SOCK_STREAM]


@contextmanager
def serving(*kinds: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Yield a process with these servers, and their ports."""
    with subprocess.Popen(
        [sys.executable, servers.__file__, *kinds], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, list(map(int, process.stdout.readline().split()))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with its children


def connect(kind: str, port: int) -> socket.socket:
    family, protocol, _ = KINDS[kind]
    client = socket.socket(family, protocol)
    client.settimeout(PATIENCE_S)
    client.setsockopt(socket.SOL_SOCKET, servers.SO_RCVBUFFORCE, servers.RECEIVE_BUFFER_BYTES)
    client.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
    return client


def ask(*clients: socket.socket) -> None:
    """Send a request from each client, and read the answers."""
    for client in clients:
        client.sendall(bytes(REQUEST))
    for client in clients:
        remaining = ANSWER
        while remaining:
            if not (read := client.recv(remaining)):
                raise ConnectionError("the server has closed the connection")
            remaining -= len(read)


def call(kind: str, port: int, watch: ServerWatch) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(connect(kind, port))) for _ in range(CLIENTS)]
        if kind == FORKS:
            wait_until_found(watch, CLIENTS)
        for _ in range(TURNS):
            if kind == "in pairs":
                ask(*clients[:2])
            else:
                for client in clients[: CLIENTS_OF.get(kind, CLIENTS)]:
                    ask(client)


def wait_until_found(watch: ServerWatch, children: int) -> None:
    expected = len(watch.processes.pids) + children

    def has_all() -> bool:
        watch.poll()
        return len(watch.processes.pids) == expected

    wait_for(has_all)


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[dict[str, int], WatchedServer]]:
    """One watch of two processes, one of which starts children: ports by kind, and what was seen."""
    others = [kind for kind in KINDS if kind != FORKS]
    with serving(*others) as (process, ports), serving(FORKS) as (forking, [forks_port]):
        port_of = dict(zip([*others, FORKS], [*ports, forks_port], strict=True))
        with closing(ServerWatch([process.pid, forking.pid])) as watch:
            for kind, port in port_of.items():
                call(kind, port, watch)
            yield port_of, watch.finish()


def events_of(port: int, server: WatchedServer) -> SocketEvents:
    is_at_port = np.array([flow.served.port == port for flow in server.flows])
    return server.events.select(is_at_port[server.events.flow])


@pytest.mark.parametrize("kind", KINDS)
def test_the_probe_counts_the_requests_and_bytes_of_the_clients(
    kind: str, watched: tuple[dict[str, int], WatchedServer]
) -> None:
    ports, server = watched
    events = events_of(ports[kind], server)
    requests = requests_of(events)
    clients = CLIENTS_OF.get(kind, CLIENTS)
    assert server.lost_events == 0
    assert requests.total == clients * TURNS
    assert len(np.unique(requests.flow)) == clients
    assert events.size[~events.is_write].sum() == requests.total * REQUEST
    assert events.size[events.is_write].sum() == requests.total * ANSWER
    reads = np.count_nonzero(~events.is_write)
    assert reads == requests.total * (REQUEST // PIECE if kind == "small reads" else 1)
    # All are answered, and the kernel says when each had arrived.
    assert (requests.service_ns > 0).all()
    assert (requests.wait_ns != UNKNOWN).all() and (requests.wait_ns > 0).any()
    assert (requests.arrived_ns < events.time_ns.max()).all()
    if kind == "burn":
        assert (requests.service_ns >= BURN_S * 1e9).all()
    spans_s = (requests.wait_ns + requests.service_ns).sum() / 1e9
    assert spans_s < clients * server.seconds


def test_a_peer_has_its_address_and_port(watched: tuple[dict[str, int], WatchedServer]) -> None:
    _, server = watched
    assert {flow.address for flow in server.flows} == {"127.0.0.1", "::1"}
    assert {flow.port > 0 for flow in server.flows} == {True}


def test_an_ipv4_peer_of_an_ipv6_socket_is_one_flow() -> None:
    """Its datagrams are read with an IPv4 header, and answered at an address of IPv6 that stands for it."""
    with serving("datagrams, IPv6", "IPv6") as (process, ports), closing(ServerWatch([process.pid])) as watch:
        for kind, port in zip(("datagrams", "threads"), ports, strict=True):
            with closing(connect(kind, port)) as client:
                ask(client)
                ask(client)
        server = watch.finish()
    assert [flow.address for flow in server.flows] == ["127.0.0.1"] * 2
    for port in ports:
        assert (requests_of(events_of(port, server)).service_ns != UNKNOWN).tolist() == [True, True]


@pytest.mark.parametrize("kind", ["datagrams", "connected"])
def test_arrivals_of_too_many_waiting_datagrams_are_unknown(kind: str) -> None:
    """All are counted. A socket that is connected knows its peer in any case."""
    excess = 6
    with serving(kind) as (process, [port]), closing(ServerWatch([process.pid])) as watch:
        with closing(connect(kind, port)) as client:
            ask(client)
            stop(process)
            for _ in range(QUEUE_LENGTH + excess):
                client.sendall(bytes(REQUEST))
            process.send_signal(signal.SIGCONT)
            for _ in range(QUEUE_LENGTH + excess):
                assert len(client.recv(2 * ANSWER)) == ANSWER
        server = watch.finish()
    reads = server.events.select(~server.events.is_write)
    is_unknown = reads.arrived_ns == UNKNOWN
    assert len(reads.flow) == 1 + QUEUE_LENGTH + excess
    assert np.count_nonzero(is_unknown) == excess
    addresses = {server.flows[flow].address for flow in reads.flow[is_unknown]}
    assert addresses == {"127.0.0.1" if kind == "connected" else None}


def test_datagrams_from_before_the_watch_have_unknown_arrivals() -> None:
    with serving("datagrams") as (process, [port]), closing(connect("datagrams", port)) as client:
        stop(process)
        for _ in range(5):
            client.sendall(bytes(REQUEST))
        with closing(ServerWatch([process.pid])) as watch:
            begin_ns = time.monotonic_ns()
            for _ in range(3):
                client.sendall(bytes(REQUEST))
            process.send_signal(signal.SIGCONT)
            for _ in range(8):
                client.recv(2 * ANSWER)
            server = watch.finish()
    reads = server.events.select(~server.events.is_write)
    arrived_ns = reads.arrived_ns[np.argsort(reads.time_ns)]
    assert (arrived_ns[:5] == UNKNOWN).all() and (arrived_ns[5:] > begin_ns).all()
    assert len(arrived_ns) == 8


def test_a_datagram_read_by_another_process_confuses_a_single_arrival_time() -> None:
    with serving("datagrams") as (process, [port]), closing(ServerWatch([process.pid])) as watch:
        with closing(connect("datagrams", port)) as client, stolen_socket(process) as stolen:
            ask(client)
            stop(process)
            client.sendall(bytes(REQUEST))
            assert len(stolen.recv(2 * REQUEST)) == REQUEST
            process.send_signal(signal.SIGCONT)
            for _ in range(3):
                ask(client)
        server = watch.finish()
    order = np.argsort(server.events.time_ns)
    times_ns, arrived_ns = server.events.time_ns[order], server.events.arrived_ns[order]
    # Reads and writes alternate. From the third read on, a datagram has arrived after the last answer.
    assert len(times_ns) == 8
    assert (arrived_ns[4::2] > times_ns[3:-1:2]).all()


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


@contextmanager
def stolen_socket(process: subprocess.Popen[str]) -> Iterator[socket.socket]:
    """Yield a socket of another process, which stays open there."""
    [link] = [link for link in Path(f"/proc/{process.pid}/fd").iterdir() if "socket:" in os.readlink(link)]
    pidfd = os.pidfd_open(process.pid)
    descriptor = libc.call("syscall", PIDFD_GETFD, pidfd, int(link.name), 0)
    os.close(pidfd)
    with socket.socket(fileno=descriptor) as stolen:
        yield stolen


def test_events_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "RING_BYTES", 4096)
    turns = 100
    with serving("threads") as (process, [port]), closing(ServerWatch([process.pid])) as watch:
        with closing(connect("threads", port)) as client:
            for _ in range(turns):
                ask(client)
        server = watch.finish()
    assert 0 < len(server.events.flow) == 2 * turns - server.lost_events


# ---- the command


class Traffic:
    """A thread that asks a server again and again, until it is stopped or the server ends."""

    def __init__(self, kind: str, port: int) -> None:
        self.count = 0
        self._client, self._stopped = connect(kind, port), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                ask(self._client)
            except ConnectionError:
                return
            self.count += 1

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.close()


def test_the_command_writes_costs_and_a_log(tmp_path: Path) -> None:
    with serving("burn", "datagrams") as (_, [port, _]), closing(Traffic("burn", port)) as traffic:
        found = json_of("probe", "--port", port, "--seconds", 0.5, "--ps", 3, "--into", tmp_path / "out")
        asked = traffic.count + 1
    assert found["ports"] == [f"TCP port {port}"]
    assert 0.5 <= found["seconds"] < PATIENCE_S
    assert 0 < found["requests"] <= asked
    # CPU time of Python comes on top.
    assert BURN_S * 1e6 * 0.95 < found["cpu_us_per_request"] < 2 * BURN_S * 1e6
    assert found["service_us"]["p50"] >= BURN_S * 1e6
    assert found["bytes_in"] == pytest.approx(found["requests"] * REQUEST, abs=REQUEST)
    hosts = load_hosts(tmp_path / "out" / HOSTS_FILE)
    assert hosts.take_ns + hosts.serve_ns + hosts.send_ns == pytest.approx(
        1000 * found["cpu_us_per_request"], abs=1
    )
    log = pl.read_parquet(tmp_path / "out" / LOG_FILE)
    assert (log.height, log["ps"].unique().to_list(), log["worker"].unique().to_list()) == (
        found["requests"], [3], [1],
    )  # fmt: skip


def test_ctrl_c_writes_the_events_that_were_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poll = ServerWatch.poll

    def poll_once(watch: ServerWatch) -> None:
        poll(watch)
        if watch.count:
            raise KeyboardInterrupt

    monkeypatch.setattr(ServerWatch, "poll", poll_once)
    with serving("datagrams") as (process, [port]), closing(Traffic("datagrams", port)):
        result = invoke("probe", "--pid", process.pid, "--into", tmp_path)
    assert result.exit_code == 130
    assert says(result.stderr, "interrupted")
    assert says(result.stdout, f"UDP port {port}", LOG_FILE)
    assert pl.read_parquet(tmp_path / LOG_FILE).height > 0


def test_a_server_that_ends_during_the_watch_is_reported_and_its_costs_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = ServerWatch.poll
    with serving("threads") as (process, [port]), closing(Traffic("threads", port)):

        def kill_after_traffic(watch: ServerWatch) -> None:
            poll(watch)
            if watch.count:
                process.kill()

        monkeypatch.setattr(ServerWatch, "poll", kill_after_traffic)
        result = invoke("probe", "--pid", process.pid, "--into", tmp_path)
    assert result.exit_code == 0, result.output
    assert says(result.stderr, "the process ended")
    assert load_hosts(tmp_path / HOSTS_FILE).serve_ns > 0


def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def without_btf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "Btf", lambda: Btf(Path("/nowhere/vmlinux")))


def of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    find = Btf.tracepoint_hook
    monkeypatch.setattr(Btf, "tracepoint_hook", lambda kernel, name: find(kernel, f"{name}_2"))


def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise bpf.BpfError("load BPF program tcp_read: Operation not permitted")

    monkeypatch.setattr(bpf, "load", refuse)


def nothing(_: pytest.MonkeyPatch) -> None:
    pass


BAD = {
    "no process": (["--pid", "4194304"], ["4194304", "no such process"], nothing),
    "a port without a server": (["--port", "{unused}"], ["{unused}", "--pid"], nothing),
    "another port of a process": (
        ["--pid", "{pid}", "--port", "{unused}"], ["{unused}", "TCP port {port}"], nothing,
    ),
    "a process without sockets": (["--pid", "{sleeping}"], ["{sleeping}", "RDMA", "shared memory"], nothing),
    "no traffic": (["--pid", "{pid}", "--seconds", "0.1"], ["no request", "RDMA"], nothing),
    "no root": (["--pid", "{pid}"], ["root", "1000"], as_another_user),
    "no BTF": (["--pid", "{pid}"], ["/nowhere/vmlinux", "CONFIG_DEBUG_INFO_BTF"], without_btf),
    "an older kernel": (["--pid", "{pid}"], ["the tracepoint", os.uname().release], of_another_release),
    "a kernel that refuses": (["--pid", "{pid}"], ["tcp_read", "not permitted"], refusing),
    "a folder that cannot be made": (["--pid", "{pid}", "--into", "/dev/null/x"], ["/dev/null/x"], nothing),
}  # fmt: skip
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, object]]:
    """Values of the placeholders in `BAD`."""
    with serving("threads") as (process, [port]), socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        with subprocess.Popen(["sleep", str(PATIENCE_S)]) as sleeping:
            yield {
                "pid": process.pid, "port": port, "unused": unused.getsockname()[1], "sleeping": sleeping.pid,
            }  # fmt: skip
            sleeping.kill()


@pytest.mark.parametrize("fault", BAD)
def test_a_wrong_argument_is_refused_in_one_line(
    fault: str, names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, facts, patch = BAD[fault]
    patch(monkeypatch)
    into = [] if "--into" in arguments else ["--into", tmp_path / "out"]
    result = invoke("probe", *(argument.format_map(names) for argument in arguments), *into)
    assert result.exit_code == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("Error: ") and says_in_one_line(
        message, *(fact.format_map(names) for fact in facts)
    )
    assert not (tmp_path / "out" / LOG_FILE).exists() and not (tmp_path / "out" / HOSTS_FILE).exists()


def test_a_thread_is_no_process(tmp_path: Path) -> None:
    with serving("threads") as (process, _):
        wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1)
        thread = max(map(int, os.listdir(f"/proc/{process.pid}/task")))
        result = invoke("probe", "--pid", thread, "--into", tmp_path)
    assert result.exit_code == 1 and says(result.stderr, thread, process.pid)
