"""Three switches on veth pairs send the frames of the same three switches in virtual time."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from random import Random

import pytest

from softswitch.datapath import SwitchPorts
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.load import load_program
from softswitch.network import Network
from softswitch.pipeline import ActionCall, ControlPlane
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS
from switch_harness.constructs import insert
from switch_harness.net import ETH_P_ALL, PACKET_IGNORE_OUTGOING, SOL_PACKET, ip
from switch_harness.waiting import PATIENCE_S

pytestmark = pytest.mark.netns
PROGRAM = PROGRAMS / "l2.json"
SWITCHES = ("s1", "s2", "s3")
FRAMES = 60
LAST = (2).to_bytes(6, "big") + b"\xff" * 60


def drawn_frames() -> list[bytes]:
    """Return frames of four destinations, of which each switch knows three, and drops another one."""
    random = Random(5)
    return [
        random.randrange(2, 6).to_bytes(6, "big") + random.randbytes(random.randrange(54, 1000))
        for _ in range(FRAMES)
    ]


def prepare(switch: str, pipeline: ControlPlane) -> None:
    """Forward from port 1 to port 2, all destinations but one."""
    unknown = 3 + SWITCHES.index(switch)
    for address in range(2, 6):
        if address != unknown:
            insert(pipeline, "L2Ingress.hosts", (address,), ActionCall("L2Ingress.forward", (2,)))


def simulated(frames: list[bytes]) -> list[bytes]:
    received: list[bytes] = []
    with Network() as net:
        net.add_host("a", "10.0.0.1/24")
        for name in SWITCHES:
            prepare(name, net.add_switch(name, PROGRAM).pipeline)
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


@pytest.mark.parametrize("datapath", [Datapath.SOCKETS, Datapath.KERNEL])
def test_three_switches_on_veths_deliver_the_frames_of_three_simulated_switches(
    stack: ExitStack, datapath: Datapath
) -> None:
    names = ["host-a", *(f"{switch}-{port}" for switch in SWITCHES for port in (1, 2)), "host-b"]
    for first, second in zip(names[::2], names[1::2], strict=True):
        ip("link", "add", first, "mtu", "1500", "type", "veth", "peer", "name", second)
        for name in (first, second):
            ip("link", "set", name, "up")
    program = load_program(PROGRAM.read_bytes())
    for switch in SWITCHES:
        interfaces = {port: f"{switch}-{port}" for port in (1, 2)}
        ports = stack.enter_context(SwitchPorts(Settings(ports=interfaces, datapath=datapath)))
        pipeline = ports.make(program)
        if isinstance(pipeline, AttachedPipeline):
            stack.callback(pipeline.close)
        prepare(switch, pipeline)
        stack.callback(ports.stop)
        ports.start(pipeline)
    sender, receiver = host_socket(stack, "host-a"), host_socket(stack, "host-b")
    for frame in (frames := [*drawn_frames(), LAST]):
        sender.send(frame)  # paced: each is delivered, or dropped, long before a queue is full
    received = list(iter(lambda: receiver.recv(1 << 16), LAST))
    assert received == simulated(frames)[:-1]
    assert 0 < len(received) < FRAMES
