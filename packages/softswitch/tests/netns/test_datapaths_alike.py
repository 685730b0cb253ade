"""What is on the wire is the same by either datapath: VLAN tags, large frames, offload, shaping."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest

from softswitch.datapath import SwitchPorts
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.probe import probe
from softswitch.pipeline import ActionCall, Change, ControlPlane, EntryWrite
from softswitch.ports.report import PortCounters
from softswitch.settings import Datapath, Settings
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.net import ETHERNET, Net, frame, ip, namespace
from switch_harness.waiting import wait_for
from switch_harness.wording import says

pytestmark = pytest.mark.netns
BOTH = pytest.mark.parametrize("datapath", [Datapath.SOCKETS, Datapath.KERNEL])
TAGS = [bytes.fromhex("81002007"), bytes.fromhex("81000123"), bytes.fromhex("88a80456")]
SOL_PACKET, PACKET_VNET_HDR = 263, 15
NEEDS_CHECKSUM, GSO_TCPV4 = 1, 1  # struct virtio_net_hdr
VLAN_STATUS = 1 << 4  # TP_STATUS_VLAN_VALID
LAST = frame(0xFFFFFFFF)


@pytest.fixture(scope="module")
def unable() -> str | None:
    return probe()


class Wire:
    """A switch of three ports, and what is at their other ends."""

    def __init__(
        self, stack: ExitStack, datapath: Datapath, program: Program,
        prepare: Callable[[ControlPlane], None] = lambda _: None, mtu: int = 1500,
    ) -> None:  # fmt: skip
        self.net = Net(stack, range(1, 6), mtu)
        self.ports = stack.enter_context(SwitchPorts(Settings(ports=self.net.names, datapath=datapath)))
        pipeline = self.ports.make(program)
        if isinstance(pipeline, AttachedPipeline):
            stack.callback(pipeline.close)
        prepare(pipeline)
        pipeline.seed_random(7)
        stack.callback(self.ports.stop)
        self.ports.start(pipeline)

    def turn_offloads_on(self, port: int) -> None:
        """Turn on what the switch has turned off, as a user might."""
        subprocess.run(["ethtool", "-K", f"h{port}", "tx", "on"], check=True, capture_output=True)

    def send(self, port: int, data: bytes) -> None:
        self.net.hosts[port].send(data)

    def receive(self, port: int) -> bytes:
        """The next frame at a port's other end, with its outer tag where it was."""
        data, [(_, _, auxiliary)], _, _ = self.net.hosts[port].recvmsg(1 << 16, 100)
        status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", auxiliary[:20])  # struct tpacket_auxdata
        tag = struct.pack(">HH", tpid, tci) if status & VLAN_STATUS else b""
        return data[:12] + tag + data[12:]

    def crossed(self, frames: list[bytes]) -> list[bytes]:
        """What comes out by port 2 of frames that go in by port 1."""
        for data in [*frames, LAST]:
            self.send(1, data)
        return list(iter(lambda: self.receive(2), LAST))

    def counters(self, received: int) -> dict[int, PortCounters]:
        """The counters, as soon as port 1 has received so many."""
        wait_for(lambda: self.ports.counters().ports[1].rx == received)
        self.ports.stop()
        return dict(self.ports.counters().ports)


@pytest.fixture
def wire(unable: str | None, datapath: Datapath) -> Iterator[Callable[..., Wire]]:
    if datapath is Datapath.KERNEL and unable is not None:
        pytest.skip(f"the kernel cannot be the datapath: {unable}")
    with namespace(), ExitStack() as opened:
        yield lambda *arguments, **more: Wire(opened, datapath, *arguments, **more)


def forwards_to_2(pipeline: ControlPlane) -> None:
    """Return the only entry of program l2: it forwards the address of `frame` to port 2."""
    forward = ActionCall("L2Ingress.forward", (2,))
    key = (int.from_bytes(ETHERNET[:6], "big"),)
    assert pipeline.tables.write([EntryWrite(Change.INSERT, "L2Ingress.hosts", key, forward)]) == [None]


def tagged(data: bytes, tags: list[bytes]) -> bytes:
    return data[:12] + b"".join(tags) + data[12:]


FORWARDING = {"wire": lambda _: None, "l2": forwards_to_2}


@BOTH
@pytest.mark.parametrize("name", FORWARDING)
def test_vlan_tags_are_kept_by_programs_that_read_the_ethernet_type_or_not(
    wire: Callable[..., Wire], name: str
) -> None:
    """None of an Ethernet header's bytes, or those alone: the tag is then in the payload."""
    switch = wire(compiled(name), FORWARDING[name])
    frames = [tagged(frame(number, 60), TAGS[:number]) for number in range(4)]
    assert switch.crossed(frames) == frames


@BOTH
@pytest.mark.parametrize("name", ["stacks", "replication", "resubmit_recirculate"])
def test_programs_see_vlan_tags(wire: Callable[..., Wire], name: str) -> None:
    """It equals the interpreter, for programs that read only the front of a frame and for others."""
    construct, program, random = CONSTRUCTS[name], compiled(name), Random(2)
    switch, oracle, got = wire(program, construct.prepare), InterpretedPipeline(program), 0
    construct.prepare(oracle)
    oracle.seed_random(7)
    for number in range(200):
        port, plain = construct.frame(random)
        data = tagged(plain, TAGS[: number % 4])
        if port not in switch.net.hosts or len(plain) < 14:
            continue
        expected = oracle.process(port, data, 0, 0)
        switch.send(port, data)
        for output in expected:
            if output.port in switch.net.hosts and len(output.frame) >= 14:
                assert switch.receive(output.port) == output.frame, data.hex()
                got += 1
    assert got > 20


@BOTH
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_frames_up_to_the_mtu_cross_and_larger_frames_are_counted(
    wire: Callable[..., Wire], mtu: int
) -> None:
    """The way out has the smaller MTU. A tag is not counted as part of a frame's size."""
    switch = wire(compiled("l2"), forwards_to_2, mtu=mtu)
    for end in ("s2", "h2"):
        ip("link", "set", end, "mtu", str(mtu - 100))
    maximum = mtu - 100 + 14
    fitting = [frame(size=maximum), tagged(frame(size=maximum), TAGS[:1])]
    larger = [frame(size=maximum + more) for more in (1, 4, 5, 100)] + [
        tagged(frame(size=maximum + 1), TAGS[:1])
    ]
    assert switch.crossed([*fitting, *larger]) == fitting
    counters = switch.counters(len(fitting) + len(larger) + 1)
    assert (counters[2].tx, counters[2].tx_oversize, counters[2].tx_dropped) == (3, len(larger), 0)


@BOTH
@pytest.mark.parametrize("is_on", [False, True])
def test_segmentation_offload_is_off_or_dropped_and_named(
    wire: Callable[..., Wire], caplog: pytest.LogCaptureFixture, is_on: bool
) -> None:
    """A UDP socket hands its interface four datagrams as one frame, larger than the MTU."""
    switch = wire(compiled("l2"), forwards_to_2)
    if is_on:
        switch.turn_offloads_on(1)
    ip("addr", "add", "10.9.0.1/24", "dev", "h1")
    ip("neigh", "add", "10.9.0.2", "lladdr", ETHERNET[:6].hex(":"), "dev", "h1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_UDP, 103, 1000)  # UDP_SEGMENT
        for _ in range(2):
            sender.sendto(bytes(4000), ("10.9.0.2", 5))
    crossed = switch.crossed([])
    if not is_on:
        assert [len(data) for data in crossed] == [1000 + 42] * 8
        return
    assert crossed == []
    counters = switch.counters(3)
    assert (counters[1].rx_oversize, counters[2].tx) == (2, 1)
    [reported] = caplog.messages
    assert says(reported, "port 1", "s1", 4042)
    assert "segmentation offload" in reported


@BOTH
def test_tcp_segments_in_one_frame_below_the_mtu_are_dropped_too(wire: Callable[..., Wire]) -> None:
    """Three segments of 200 B, as a network stack hands them to an interface that cuts them apart."""
    switch = wire(compiled("l2"), forwards_to_2)
    switch.turn_offloads_on(1)
    size = 600
    ip_header = struct.pack(">BBHHHBBH8s", 0x45, 0, 40 + size, 1, 0, 64, 6, 0, bytes(8))
    tcp = struct.pack(">HHIIBBHHH", 5, 6, 1, 1, 0x50, 0x10, 1000, 0, 0)
    offload = struct.pack("<BBHHHH", NEEDS_CHECKSUM, GSO_TCPV4, 14 + 40, 200, 14 + 20, 16)
    sender = switch.net.hosts[1]
    sender.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sender.send(offload + ETHERNET + ip_header + tcp + bytes(size))
    sender.send(bytes(len(offload)) + LAST)
    assert switch.receive(2) == LAST
    counters = switch.counters(2)
    assert (counters[1].rx_oversize, counters[2].tx) == (1, 1)


@BOTH
def test_frames_beyond_the_rate_of_a_shaped_link_are_dropped_and_counted(wire: Callable[..., Wire]) -> None:
    """The link is like Mininet's TCLink: htb, whose queue has a limit. Not every kernel has its netem."""
    switch = wire(compiled("l2"), forwards_to_2)
    for words in (
        "qdisc add dev s2 root handle 5: htb default 1",
        "class add dev s2 parent 5: classid 5:1 htb rate 8mbit burst 15k",
        "qdisc add dev s2 parent 5:1 handle 10: pfifo limit 20",
    ):
        subprocess.run(["tc", *words.split()], check=True)
    frames = [frame(number, 1000) for number in range(500)]
    for data in frames:
        switch.send(1, data)
    counters = switch.counters(len(frames))
    arrived = [switch.receive(2) for _ in range(counters[2].tx)]
    assert counters[2].tx_dropped > 100
    assert counters[2].tx + counters[2].tx_dropped == len(frames)
    assert arrived == [data for data in frames if data in set(arrived)]
