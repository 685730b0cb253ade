"""Who may call a switch: every RPC of every service, as each kind of user; and whose a connection is."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.protobuf.descriptor import ServiceDescriptor

from softswitch import cli
from softswitch.bmv2.command import settings_of
from softswitch.bmv2.options import GRPC, THRIFT, parse
from softswitch.errors import SwitchError
from softswitch.frames import dataplane
from softswitch.frames.grpc_stream import GrpcStream
from softswitch.frames.ports import FramePorts
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime import messages
from softswitch.p4runtime.access import AccessCheck, AccessPolicy, CheckedHandlers, make_policy
from softswitch.p4runtime.peers import Endpoint, PeerUsers, parse_peer
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.runtime.device import SwitchRuntime
from softswitch.runtime.interface import SERVICE, Runtime
from softswitch.runtime.service import METHODS, runtime_handlers
from softswitch.settings import Settings
from switch_harness.p4runtime import CONTROL, DEVICE
from switch_harness.switch_runtime import DevicePorts
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions

NOBODY, ALLOWED = 65534, 12345
OWN = os.getuid()
needs_root = pytest.mark.skipif(OWN != 0, reason="needs root to be other users: `make test`")

# -- every RPC


def p4runtime_methods() -> list[str]:
    service: ServiceDescriptor = messages._POOL.FindServiceByName("p4.v1.P4Runtime")
    return [f"/{service.full_name}/{method.name}" for method in service.methods]


SERVICES = {
    "P4Runtime": p4runtime_methods(),
    "Runtime": [f"/{SERVICE}/{name}" for name in METHODS],
    "DataplaneInterface": [dataplane.PACKET_STREAM, dataplane.SET_PORT_STATUS],
}
CALL_EVERYTHING = """
import grpc, json, sys
codes = {}
for address, methods in json.loads(sys.argv[1]):
    with grpc.insecure_channel(address) as channel:
        for method in methods:
            try:  # every server takes this form, in which each message is empty
                list(channel.stream_stream(method)(iter([b""]), timeout=60))
                codes[method] = "OK"
            except grpc.RpcError as error:
                codes[method] = error.code().name
                if codes[method] == "PERMISSION_DENIED":
                    codes[method] += ": " + error.details()
print(json.dumps(codes))
"""


@contextmanager
def serving(policy: AccessPolicy) -> Iterator[list[tuple[str, list[str]]]]:
    """Serve all services; yield each server's address with the methods that it has."""
    loop, ports = asyncio.new_event_loop(), DevicePorts()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[P4RuntimeServer[Any], int]:
        server = P4RuntimeServer[Any](DEVICE, ports, InterpretedPipeline, policy)
        server.pipelines.load_bare(CONTROL.with_suffix(".json").read_bytes())
        runtime: asyncio.Future[Runtime] = loop.create_future()
        runtime.set_result(SwitchRuntime[Any](server.pipelines, ports, DEVICE))
        server.extra_handlers.append(runtime_handlers(runtime))
        return server, await server.start("127.0.0.1:0")

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result()
    frames = GrpcStream("127.0.0.1:0", DEVICE, policy)
    try:
        with FramePorts(frames):
            on_port = [*SERVICES["P4Runtime"], *SERVICES["Runtime"]]
            yield [(f"127.0.0.1:{port}", on_port), (frames.address, SERVICES["DataplaneInterface"])]
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        ports.close()


def start_calls(uid: int, servers: list[tuple[str, list[str]]]) -> subprocess.Popen[str]:
    user: dict[str, Any] = {} if uid == OWN else {"user": uid, "group": uid, "extra_groups": []}
    command = [sys.executable, "-c", CALL_EVERYTHING, json.dumps(servers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **user)


def codes_of(process: subprocess.Popen[str]) -> dict[str, str]:
    output, _ = process.communicate(timeout=PATIENCE_S)
    codes: dict[str, str] = json.loads(output)
    return codes


SERVED = {"OK", "NOT_FOUND", "INVALID_ARGUMENT", "UNAVAILABLE", "FAILED_PRECONDITION"}


@needs_root
def test_every_rpc_is_for_allowed_users_only() -> None:
    """Root, one who is named, and one who is not; and one who is not, where everyone may."""
    everything = {method for methods in SERVICES.values() for method in methods}
    with serving(make_policy([str(ALLOWED)])) as servers, serving(make_policy((), True)) as open_servers:
        processes = {uid: start_calls(uid, servers) for uid in (OWN, ALLOWED, NOBODY)}
        at_open = start_calls(NOBODY, open_servers)
        codes = {uid: codes_of(process) for uid, process in processes.items()}
        open_codes = codes_of(at_open)
    expected = (
        f"PERMISSION_DENIED: nobody (uid {NOBODY}) may not call this switch, "
        f"which serves root, user {ALLOWED}: start the switch with --allow-user {NOBODY}"
    )
    assert codes[NOBODY] == dict.fromkeys(everything, expected)
    for allowed in (codes[OWN], codes[ALLOWED], open_codes):
        assert allowed.keys() == everything
        assert [m for m, code in allowed.items() if code.startswith("PERMISSION_DENIED")] == []
        # The calls were served: their arguments are wrong, or there are none.
        assert set(allowed.values()) <= SERVED


def test_no_service_is_without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server of the switch gets checked handlers alone, for exactly the methods named above."""
    added: list[grpc.GenericRpcHandler] = []
    for module in (grpc, grpc.aio):
        make = module.server

        def recording(*args: Any, make: Any = make, **kwargs: Any) -> Any:
            server = make(*args, **kwargs)
            add = server.add_generic_rpc_handlers

            def record(handlers: list[grpc.GenericRpcHandler]) -> None:
                added.extend(handlers)
                add(handlers)

            server.add_generic_rpc_handlers = record
            return server

        monkeypatch.setattr(module, "server", recording)
    with serving(make_policy()):
        pass
    assert all(isinstance(handlers, CheckedHandlers) for handlers in added)
    inner = [handlers._handlers for handlers in added if isinstance(handlers, CheckedHandlers)]
    found = {method for handlers in inner for method in handlers._method_handlers}  # type: ignore[attr-defined]  # gRPC has no types
    assert found == {method for methods in SERVICES.values() for method in methods}


LISTENING = ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]"]


@pytest.fixture(scope="module")
def served_addresses() -> dict[str, int | str]:
    """Return at how many addresses the switch is reached, by the one at which it listens.

    In a new process: gRPC decides once in a process whether there is IPv6, perhaps in another namespace.
    """
    command = [sys.executable, "-m", "switch_harness.loopback_addresses", *LISTENING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    served: dict[str, int | str] = json.loads(done.stdout)
    return served


@pytest.mark.parametrize("listening", LISTENING)
def test_own_clients_are_served_wherever_the_switch_listens(
    listening: str, served_addresses: dict[str, int | str]
) -> None:
    """By each address of the loopback at which it can be reached."""
    served = served_addresses[listening]
    assert isinstance(served, int), served
    assert served >= (1 if "1" in listening else 2)


# -- policies


@pytest.mark.parametrize(
    ("own_uid", "environment", "users", "expected"),
    [
        (0, {}, [], {0}),
        (1000, {}, [], {0, 1000}),
        (0, {"SUDO_UID": "1000"}, [], {0, 1000}),
        (5, {"SUDO_UID": "1000"}, [], {0, 5}),  # it is not from sudo's environment
        (0, {"SUDO_UID": "x"}, [], {0}),
        (0, {}, ["nobody", "7"], {0, 7, NOBODY}),
    ],
)
def test_root_the_own_user_and_the_user_of_sudo_are_allowed(
    own_uid: int, environment: dict[str, str], users: list[str], expected: set[int]
) -> None:
    policy = make_policy(users, own_uid=own_uid, environment=environment)
    assert policy == AccessPolicy(frozenset(expected), is_open=False)


def test_an_unknown_user_is_named() -> None:
    with pytest.raises(SwitchError, match=mentions("--allow-user", "nosuch", "ID")):
        make_policy(["nosuch"])


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:127.0.0.1:4711", ("127.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[::1]:4711", ("::1", 4711)),
        ("ipv6:%5B::ffff:10.0.0.1%5D:1", ("10.0.0.1", 1)),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", ("fe80::1", 1)),
        ("unix:", None),
        ("unix:/run/x", None),
        ("ipv4:127.0.0.1", None),
        ("ipv4:nonsense:1", None),
        ("", None),
    ],
)
def test_endpoints_are_parsed_from_the_names_of_peers(peer: str, expected: tuple[str, int] | None) -> None:
    endpoint = None if expected is None else Endpoint(ipaddress.ip_address(expected[0]), expected[1])
    assert parse_peer(peer) == endpoint


def test_a_peer_without_a_known_connection_is_denied(caplog: pytest.LogCaptureFixture) -> None:
    check = AccessCheck(make_policy())
    check.listens_at("127.0.0.1", 9)
    for peer in ("unix:", "ipv4:10.1.2.3:4", "ipv4:127.0.0.1:4"):
        denial = check.denial(peer)
        assert denial is not None
        assert denial.startswith(f"{peer} is no process of this machine's network, and may not call")
    assert len(caplog.messages) == 1  # one line for all of one kind
    check.close()


# -- whose a connection is

# Addresses that the server listens at, and that the client connects to, and the family of its socket.
CONNECTIONS = {
    "IPv4": ("127.0.0.1", "127.0.0.1", socket.AF_INET),
    "other loopback address": ("127.0.0.2", "127.0.0.2", socket.AF_INET),
    "any IPv4": ("0.0.0.0", "127.0.0.1", socket.AF_INET),
    "any IPv4, other loopback address": ("0.0.0.0", "127.0.0.3", socket.AF_INET),
    "IPv6": ("::1", "::1", socket.AF_INET6),
    "any IPv6": ("::", "::1", socket.AF_INET6),
    "any, by IPv4": ("::", "127.0.0.1", socket.AF_INET),
    "any, by a mapped address": ("::", "::ffff:127.0.0.1", socket.AF_INET6),
    "IPv4, by a mapped address": ("127.0.0.1", "::ffff:127.0.0.1", socket.AF_INET6),
}


class Connection:
    """A connection of another user's, if this test is root's."""

    def __init__(
        self, stack: ExitStack, listening: str, connecting: str, family: socket.AddressFamily
    ) -> None:
        listener_family = socket.AF_INET6 if ":" in listening else socket.AF_INET
        listener = stack.enter_context(socket.socket(listener_family))
        listener.bind((listening, 0))
        listener.listen()
        port = listener.getsockname()[1]
        if OWN == 0:
            os.seteuid(NOBODY)
        try:
            self.client = stack.enter_context(socket.socket(family))
        finally:
            os.seteuid(OWN)
        self.client.connect((connecting, port))
        self.server, address = listener.accept()
        stack.enter_context(self.server)
        mapped = ipaddress.ip_address(address[0])
        client_address = getattr(mapped, "ipv4_mapped", None) or mapped
        self.endpoint = Endpoint(client_address, address[1])
        self.servers = [Endpoint(ipaddress.ip_address(listening), port)]
        if listening == "::":
            self.servers.append(Endpoint(ipaddress.ip_address("0.0.0.0"), port))


@pytest.fixture(params=["sock_diag", "proc"])
def users(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PeerUsers]:
    """Each way to find a user, alone."""
    found = PeerUsers()
    if request.param == "sock_diag":
        monkeypatch.setattr(found, "_search_proc", lambda _client, _servers: None)
    else:
        monkeypatch.setattr(found, "_ask_kernel", lambda _client, _server: None)
    yield found
    found.close()


USER = NOBODY if OWN == 0 else OWN


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_connection_is_its_sockets_users(users: PeerUsers, name: str) -> None:
    """However it comes about. Another port of the client or the server is no connection."""
    with ExitStack() as stack:
        connection = Connection(stack, *CONNECTIONS[name])
        client, servers = connection.endpoint, connection.servers
        is_found = not (name == "any IPv4, other loopback address" and is_exact_only(users))
        assert users.find_uid(client, servers) == (USER if is_found else None)
        assert users.find_uid(client._replace(port=client.port ^ 1), servers) is None
        assert users.find_uid(client, [s._replace(port=s.port ^ 1) for s in servers]) is None


def is_exact_only(users: PeerUsers) -> bool:
    """Return whether users are found by exact addresses, of which a server at any address has none."""
    return "_search_proc" in vars(users)


def test_an_answer_of_the_kernel_to_an_earlier_request_is_discarded() -> None:
    """As after a timeout: it could be about a connection of root's."""
    with ExitStack() as stack:
        users = PeerUsers()
        stack.callback(users.close)
        first, second = (Connection(stack, *CONNECTIONS["IPv4"]) for _ in range(2))
        assert users._netlink is not None
        receive, users._requests = users._netlink, 2**32 - 2
        skipped = NoAnswer(receive)
        users._netlink = skipped  # type: ignore[assignment]  # a stand-in
        assert users._ask_kernel(first.endpoint, first.servers[0]) is None
        users._netlink = receive
        second.client.close()
        assert users._ask_kernel(second.endpoint, second.servers[0]) is None  # not the user of the first
        assert users._ask_kernel(first.endpoint, first.servers[0]) == USER


class NoAnswer:
    """A socket whose answers come too late."""

    def __init__(self, netlink: socket.socket) -> None:
        self.send = netlink.send
        self.close = netlink.close

    def recv(self, _size: int) -> bytes:
        raise TimeoutError


CLOSED: dict[str, Callable[[Connection], None]] = {
    "closed by the client": lambda connection: connection.client.close(),
    "reset": lambda connection: reset(connection.client),
    "closed by the server": lambda connection: connection.server.close(),
    "closed by both, the client first": lambda connection: close_both(connection.client, connection.server),
    "closed by both, the server first": lambda connection: close_both(connection.server, connection.client),
    "half closed": lambda connection: connection.client.shutdown(socket.SHUT_WR),
}


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def close_both(first: socket.socket, second: socket.socket) -> None:
    first.close()
    second.close()


@pytest.mark.parametrize("how", CLOSED)
def test_a_connection_that_has_ended_belongs_to_no_user(users: PeerUsers, how: str) -> None:
    """The kernel shows sockets without a process as root's, who would be allowed."""
    with ExitStack() as stack:
        connection = Connection(stack, *CONNECTIONS["IPv4"])
        CLOSED[how](connection)
        wait_for(lambda: users.find_uid(connection.endpoint, connection.servers) is None)


# -- options

OPTIONS: dict[str, tuple[list[str], AccessPolicy]] = {
    "none": ([], make_policy()),
    "a name and an ID": (["--allow-user", "nobody", "--allow-user", "7"], make_policy(["nobody", "7"])),
    "everyone": (["--allow-everyone"], make_policy(is_open=True)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_each_command_line_has_the_options_of_access(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words, expected = OPTIONS[name]
    made: list[Settings] = []
    monkeypatch.setattr(cli, "run", made.append)
    cli.command.main(["--no-p4", *words], standalone_mode=False)
    for program, arguments in ((GRPC, ["--no-p4", "--", *words]), (THRIFT, ["x.json", "--", *words])):
        made.append(settings_of(program, parse(program, arguments)))
    assert [settings.access for settings in made] == [expected] * 3


def test_a_certificate_of_the_clients_replaces_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS without clients' certificates does not."""
    authority, made = trustme.CA(), list[Settings]()
    certificate = authority.issue_cert("127.0.0.1")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("cert", "key", "ca")}
    Path(files["cert"]).write_bytes(certificate.cert_chain_pems[0].bytes())
    Path(files["key"]).write_bytes(certificate.private_key_pem.bytes())
    Path(files["ca"]).write_bytes(authority.cert_pem.bytes())
    monkeypatch.setattr(cli, "run", made.append)
    tls = ["--tls-cert", files["cert"], "--tls-key", files["key"]]
    for more in ([], ["--tls-ca", files["ca"]]):
        cli.command.main(["--no-p4", *tls, *more], standalone_mode=False)
    grpc_tls = ["--grpc-server-ssl", "--grpc-server-cert", files["cert"], "--grpc-server-key", files["key"]]
    grpc_ca = ["--grpc-server-cacert", files["ca"]]
    for more in ([], grpc_ca, [*grpc_ca, "--grpc-server-with-client-auth"]):
        made.append(settings_of(GRPC, parse(GRPC, ["--no-p4", "--", *grpc_tls, *more])))
    assert [settings.access.is_open for settings in made] == [False, True, False, False, True]
