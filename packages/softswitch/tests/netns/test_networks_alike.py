"""Three switches on veth pairs send the frames of the same three switches in virtual time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from random import Random

import pytest

from softswitch import processes
from softswitch.conformance.bmv2 import Bmv2Tables
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.encoding import EntityEncoder
from softswitch.datapath import SwitchPorts
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.load import load_program
from softswitch.network import Network
from softswitch.pipeline import ActionCall, Change, EntryWrite
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS
from switch_harness.net import ETH_P_ALL, PACKET_IGNORE_OUTGOING, SOL_PACKET, ip
from switch_harness.waiting import PATIENCE_S

pytestmark = pytest.mark.netns
PROGRAM = PROGRAMS / "l2.json"
SWITCHES = ("s1", "s2", "s3")
FRAMES = 60
KNOWN = (2).to_bytes(6, "big")  # a destination that each switch knows
PROBE = KNOWN + b"\xff" * 60
PROBE_INTERVAL_S = 0.2


def drawn_frames() -> list[bytes]:
    """Return frames of four destinations, of which each switch knows three, and drops another one."""
    random = Random(5)
    return [
        random.randrange(2, 6).to_bytes(6, "big") + random.randbytes(random.randrange(54, 1000))
        for _ in range(FRAMES)
    ]


def prepare(switch: str, write: Callable[[Sequence[EntryWrite]], list[Exception | None]]) -> None:
    """Forward from port 1 to port 2, all destinations but one."""
    unknown = 3 + SWITCHES.index(switch)
    known = [address for address in range(2, 6) if address != unknown]
    forward = ActionCall("L2Ingress.forward", (2,))
    writes = [EntryWrite(Change.INSERT, "L2Ingress.hosts", (address,), forward) for address in known]
    assert write(writes) == [None] * len(known)


def simulated(frames: list[bytes]) -> list[bytes]:
    received: list[bytes] = []
    with Network() as net:
        net.add_host("a", "10.0.0.1/24")
        for name in SWITCHES:
            prepare(name, net.add_switch(name, PROGRAM).pipeline.tables.write)
        net.add_host("b", "10.0.0.2/24").on_frame(received.append)
        for first, second in zip(("a", *SWITCHES), (*SWITCHES, "b"), strict=True):
            net.add_link(first, second)
        net.host("a").send(frames, every_us=100, count=len(frames))
        net.run()
    return received


def host_socket(stack: ExitStack, interface: str) -> socket.socket:
    host = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
    host.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    host.settimeout(PATIENCE_S)
    host.bind((interface, 0))
    return host


def connect_veths(*names: str) -> None:
    for first, second in zip(names[::2], names[1::2], strict=True):
        ip("link", "add", first, "mtu", "1500", "type", "veth", "peer", "name", second)
        for name in (first, second):
            ip("link", "set", name, "up")


@pytest.fixture
def interfaces(stack: ExitStack) -> dict[str, dict[int, str]]:
    """Connect host-a, the switches in a line, and host-b by veth pairs; return the switches' ports."""
    ports = {switch: {port: f"{switch}-{port}" for port in (1, 2)} for switch in SWITCHES}
    connect_veths("host-a", *(name for each in ports.values() for name in each.values()), "host-b")
    return ports


def delivered(stack: ExitStack) -> list[bytes]:
    """Return the frames of `drawn_frames` that come from host-a to host-b, one at a time."""
    sender, receiver = host_socket(stack, "host-a"), host_socket(stack, "host-b")
    probe_until_received(sender, receiver)
    received: list[bytes] = []
    for number, frame in enumerate(drawn_frames()):
        follower = KNOWN + bytes([number]) * 60
        for each in (frame, follower):
            sender.send(each)
        received += iter(lambda: receiver.recv(1 << 16), follower)
    return [frame for frame in received if frame != PROBE]


def probe_until_received(sender: socket.socket, receiver: socket.socket) -> None:
    """Send PROBE until it comes through all switches; BMv2's ports start some time after a commit."""
    deadline = time.monotonic() + PATIENCE_S
    receiver.settimeout(PROBE_INTERVAL_S)
    while True:
        sender.send(PROBE)
        try:
            assert receiver.recv(1 << 16) == PROBE
            break
        except TimeoutError:
            assert time.monotonic() < deadline, "no probe has come through the switches"
    receiver.settimeout(PATIENCE_S)


@pytest.mark.parametrize("datapath", [Datapath.SOCKETS, Datapath.KERNEL])
def test_three_switches_on_veths_deliver_the_frames_of_three_simulated_switches(
    stack: ExitStack, interfaces: dict[str, dict[int, str]], datapath: Datapath
) -> None:
    program = load_program(PROGRAM.read_bytes())
    for switch in SWITCHES:
        ports = stack.enter_context(SwitchPorts(Settings(ports=interfaces[switch], datapath=datapath)))
        pipeline = ports.make(program)
        if isinstance(pipeline, AttachedPipeline):
            stack.callback(pipeline.close)
        prepare(switch, pipeline.tables.write)
        stack.callback(ports.stop)
        ports.start(pipeline)
    received = delivered(stack)
    assert received == simulated(drawn_frames())
    assert 0 < len(received) < FRAMES


@pytest.mark.bmv2
def test_three_bmv2_switches_deliver_the_frames_of_three_simulated_switches(
    stack: ExitStack, interfaces: dict[str, dict[int, str]]
) -> None:
    ip("link", "set", "lo", "up")
    config = pipeline_config(PROGRAM.with_suffix(""))
    for switch in SWITCHES:
        process = stack.enter_context(processes.bmv2(interfaces[switch]))
        client = stack.enter_context(P4RuntimeClient(process.address))
        client.set_pipeline(config)
        prepare(switch, Bmv2Tables(client, EntityEncoder(config.p4info)).write)
    assert delivered(stack) == simulated(drawn_frames())
