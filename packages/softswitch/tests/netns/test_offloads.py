"""Hosts that leave checksums and segments to their interfaces, across the switch, in both datapaths."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from signal import SIGTERM

import pytest

from softswitch.datapath import SwitchPorts
from softswitch.ir import Masked, Program
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.load import load_program
from softswitch.pipeline import ActionCall, ControlPlane
from softswitch.ports.offloads import Offloads, call_in_namespace
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS
from switch_harness.constructs import compiled, insert
from switch_harness.ended_compilations import end_by, starting, wait_while_working, write_slow_program
from switch_harness.net import ip
from switch_harness.waiting import PATIENCE_S

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("kernel_datapath")]
BOTH = pytest.mark.parametrize("datapath", [Datapath.SOCKETS, Datapath.AUTO])
PORT, SO_NO_CHECK = 4000, 11
ADDRESSES = {socket.AF_INET: "10.0.0.{}", socket.AF_INET6: "fd00::{}"}
FAMILIES = pytest.mark.parametrize("family", ADDRESSES, ids=["IPv4", "IPv6"])
NAT = 100  # what the translating program adds to the last byte of the source address
LAST = b"the last"


class Hosts:
    """Two network namespaces with an interface `e0` each, whose other ends are the switch's."""

    def __init__(self, stack: ExitStack) -> None:
        self.names = {number: f"sw{os.getpid()}h{number}" for number in (1, 2)}
        self.ports = {number: f"s{number}" for number in self.names}
        for number, name in self.names.items():
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", f"s{number}", "type", "veth", "peer", "name", "e0", "netns", name)
            ip("link", "set", f"s{number}", "up")
            ip("-n", name, "link", "set", "e0", "address", mac(number), "up")
            for pattern in ADDRESSES.values():
                ip("-n", name, "addr", "add", f"{pattern.format(number)}/24", "dev", "e0", *no_dad(pattern))
                for other in (1, 2, 1 + NAT, 2 + NAT):
                    known = pattern.format(other)
                    if other != number:
                        address = mac(other % NAT)
                        ip("-n", name, "neigh", "add", known, "lladdr", address, "dev", "e0")

    def inside(self, number: int, call: Callable[[], socket.socket]) -> socket.socket:
        made = call_in_namespace(Path("/run/netns") / self.names[number], call)
        made.settimeout(PATIENCE_S)
        return made

    def feature(self, number: int, name: str) -> bool:
        command = ["ip", "netns", "exec", self.names[number], "ethtool", "--json", "-k", "e0"]
        [features] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return bool(features[name]["active"])


def mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def promiscuity(interface: str) -> int:
    command = ["ip", "-json", "-details", "link", "show", "dev", interface]
    [link] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return int(link["promiscuity"])


def no_dad(pattern: str) -> list[str]:
    return ["nodad"] if ":" in pattern else []


@pytest.fixture
def hosts(stack: ExitStack) -> Hosts:
    return Hosts(stack)


def start(
    stack: ExitStack,
    hosts: Hosts,
    datapath: Datapath,
    program: Program,
    prepare: Callable[[ControlPlane], None],
) -> SwitchPorts:
    ports = stack.enter_context(SwitchPorts(Settings(ports=hosts.ports, datapath=datapath)))
    assert ports.datapath is (Datapath.KERNEL if datapath is Datapath.AUTO else datapath), (
        ports.sockets_reason
    )
    pipeline = ports.make(program)
    if isinstance(pipeline, AttachedPipeline):
        stack.callback(pipeline.close)
    prepare(pipeline)
    stack.callback(ports.stop)
    ports.start(pipeline)
    return ports


def forward_by_mac(pipeline: ControlPlane) -> None:
    for number in (1, 2):
        key = (int(mac(number).replace(":", ""), 16),)
        insert(pipeline, "L2Ingress.hosts", key, ActionCall("L2Ingress.forward", (number,)))


def receive_datagrams(receiver: socket.socket) -> list[bytes]:
    return list(iter(lambda: receiver.recv(1 << 16), LAST))


def send_datagrams(hosts: Hosts, family: socket.AddressFamily, payloads: list[bytes]) -> list[bytes]:
    """Send from the first host to the second; return what its sockets accept, by then or by the last one."""
    receiver = hosts.inside(2, lambda: socket.socket(family, socket.SOCK_DGRAM))
    sender = hosts.inside(1, lambda: socket.socket(family, socket.SOCK_DGRAM))
    with receiver, sender:
        address = ADDRESSES[family].format(2), PORT
        receiver.bind(address)
        for payload in payloads:
            sender.sendto(payload, address)
        sender.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)  # IPv4: the last has none, and is accepted
        sender.sendto(LAST, address)
        return receive_datagrams(receiver)


PAYLOADS = [os.urandom(length) for length in [*range(1, 90), *range(1400, 1411)]]


@BOTH
@FAMILIES
def test_datagrams_without_a_checksum_cross_the_switch(
    stack: ExitStack, hosts: Hosts, datapath: Datapath, family: socket.AddressFamily
) -> None:
    """Of every length, even and odd, from a socket that leaves the checksum to its interface."""
    assert hosts.feature(1, "tx-checksumming")
    start(stack, hosts, datapath, compiled("l2"), forward_by_mac)
    assert send_datagrams(hosts, family, PAYLOADS) == PAYLOADS


@FAMILIES
def test_datagrams_cross_although_offloads_cannot_be_turned_off(
    stack: ExitStack, hosts: Hosts, family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without CAP_NET_ADMIN: the sockets finish the checksums, and auto takes the sockets."""
    reason = "s1 is not to be changed"
    monkeypatch.setattr(Offloads, "turn_off", lambda _self, _name: reason)
    with SwitchPorts(Settings(ports=hosts.ports)) as ports:
        assert ports.describe_datapath() == f"datapath sockets: {reason}"
    start(stack, hosts, Datapath.SOCKETS, compiled("l2"), forward_by_mac)
    assert hosts.feature(1, "tx-checksumming")
    assert send_datagrams(hosts, family, PAYLOADS) == PAYLOADS


@BOTH
@FAMILIES
def test_a_tcp_stream_crosses_the_switch(
    stack: ExitStack, hosts: Hosts, datapath: Datapath, family: socket.AddressFamily
) -> None:
    """Its segments come one by one, or the switch would drop them as too large."""
    ports = start(stack, hosts, datapath, compiled("l2"), forward_by_mac)
    data, received = os.urandom(1 << 20), bytearray()
    listener = hosts.inside(2, lambda: socket.create_server(("", PORT), family=family))
    with listener, hosts.inside(1, lambda: socket.socket(family)) as client:
        client.connect((ADDRESSES[family].format(2), PORT))
        server, _ = listener.accept()
        with server:
            server.settimeout(PATIENCE_S)
            sender = threading.Thread(target=send_all, args=(client, data))
            sender.start()
            while part := server.recv(1 << 16):
                received += part
            sender.join()
    assert received == data
    assert [port.rx_oversize for port in ports.counters().ports.values()] == [0, 0]


def send_all(client: socket.socket, data: bytes) -> None:
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)


# -- address translation


def l3_with_translation() -> Program:
    """Program l3, which sets the source address where it would decrement the TTL: the forgetful NAT."""
    program = json.loads((PROGRAMS / "l3.json").read_bytes())
    [action] = [each for each in program["actions"] if each["name"] == "L3Ingress.next_hop"]
    [statement] = [p for p in action["primitives"] if p["parameters"][0].get("value") == ["ipv4", "ttl"]]
    source = {"type": "field", "value": ["ipv4", "src_addr"]}
    added = {"op": "^", "left": source, "right": {"type": "hexstr", "value": hex(NAT)}}
    statement["parameters"] = [source, {"type": "expression", "value": added}]
    return load_program(json.dumps(program).encode())


def route_to_2(pipeline: ControlPlane) -> None:
    next_hop = ActionCall("L3Ingress.next_hop", (int(mac(2).replace(":", ""), 16), 2))
    insert(pipeline, "L3Ingress.routes", (Masked(0x0A000002, 0xFFFFFFFF),), next_hop)


@BOTH
@pytest.mark.parametrize("can_turn_off", [True, False])
def test_a_translation_that_forgets_the_checksum_shows(
    stack: ExitStack, hosts: Hosts, datapath: Datapath, can_turn_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a wire: no datagram is accepted but the one without a checksum, and all by the right program."""
    if not can_turn_off:
        if datapath is not Datapath.SOCKETS:
            return  # auto takes the sockets
        monkeypatch.setattr(Offloads, "turn_off", lambda _self, _name: "it cannot")
    payloads = PAYLOADS[:20]
    for program, accepted in ((compiled("l3"), payloads), (l3_with_translation(), [])):
        with ExitStack() as inner:
            start(inner, hosts, datapath, program, route_to_2)
            assert send_datagrams(hosts, socket.AF_INET, payloads) == accepted


# -- what is turned off, and on again


def test_offloads_of_interfaces_are_restored_at_the_end(stack: ExitStack, hosts: Hosts) -> None:
    command = ["ip", "netns", "exec", hosts.names[2], "ethtool", "-K", "e0", "tx", "off"]
    subprocess.run(command, check=True, capture_output=True)
    with closing(Offloads()) as offloads:
        assert [offloads.turn_off(name) for name in hosts.ports.values()] == [None, None]
        text = "offloads turned off while the switch runs: tx of e0 (other end of s1)"
        assert offloads.describe() == text
        assert [hosts.feature(number, "tx-checksumming") for number in (1, 2)] == [False, False]
    assert [hosts.feature(number, "tx-checksumming") for number in (1, 2)] == [True, False]


KINDS = {
    "bridge": ("link add x0 type bridge", "x0 (bridge) may receive frames with unfinished checksums"),
    "TAP": ("tuntap add x0 mode tap", "x0 (tun) may receive frames with unfinished checksums"),
    "loopback": ("link set lo name x0", "x0 has frames with unfinished checksums"),
    "veth": ("link add x0 type veth peer name x1", None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_senders_that_cannot_be_changed_are_named(stack: ExitStack, kind: str) -> None:
    words, reason = KINDS[kind]
    ip(*words.split())
    with closing(Offloads()) as offloads:
        assert offloads.turn_off("x0") == reason
        if kind == "loopback":
            assert offloads.describe() is None
        assert (
            offloads.turn_off("none")
            == "the offloads of none cannot be turned off: no interface with this name"
        )


def test_a_namespace_that_cannot_be_found_is_named(
    stack: ExitStack, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softswitch.ports.offloads._namespaces", lambda: iter(()))
    with closing(Offloads()) as offloads:
        assert offloads.turn_off("s1") == (
            "the offloads of s1 cannot be turned off: "
            "its other end is in a network namespace without a name or a process"
        )


def test_a_signal_during_a_compilation_leaves_the_offloads_and_modes_of_interfaces(
    hosts: Hosts, tmp_path: Path
) -> None:
    program = write_slow_program(tmp_path)
    initial, running = [(True, 0)] * 2, [(False, 1)] * 2

    def states() -> list[tuple[bool, int]]:
        feature = "tx-checksum-ip-generic"
        return [(hosts.feature(number, feature), promiscuity(name)) for number, name in hosts.ports.items()]

    assert states() == initial
    ports = [option for number, name in hosts.ports.items() for option in ("-i", f"{number}@{name}")]
    with starting(program, {"XDG_CACHE_HOME": str(tmp_path / "switch")}, options=ports) as switch:
        # An interface is promiscuous when it is attached, which is before the switch compiles.
        wait_while_working(switch, lambda: promiscuity(hosts.ports[2]) == 1)
        assert states() == running
        end_by(switch, SIGTERM)
    assert states() == initial
