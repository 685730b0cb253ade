"""What must hold in the exercises of p4lang/tutorials, in numbers, with small programs of this repository.

The page `docs/tutorial-checks.md` has the checks, and what the exercises' own programs did.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from softswitch.network import Controller, Network
from softswitch.p4runtime.messages import p4r

PROGRAMS = Path(__file__).parent
A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"
FRAME_BYTES = 1000
INTERVAL_US = 1000
FRAMES = 200
MBIT = 0.5
QUEUE_FRAMES = 64
WIRE_OVERHEAD = 24
THRESHOLD = 10
_US_PER_S = 10**6


def ethernet(destination: str, source: str, frame_type: int) -> bytes:
    addresses = destination.replace(":", "") + source.replace(":", "")
    return bytes.fromhex(addresses) + frame_type.to_bytes(2, "big")


def record(net: Network, host: str) -> list[bytes]:
    received: list[bytes] = []
    net.host(host).on_frame(received.append)
    return received


# -- ecn, mri, link_monitor


@pytest.fixture
def line() -> Iterator[Network]:
    """Host a, switch s1, a bottleneck, switch s2, host b; switch k has the ID k."""
    with Network() as net:
        net.add_host("a", "10.0.0.1/24", mac=A)
        net.add_host("b", "10.0.0.2/24", mac=B)
        for k in (1, 2):
            switch = net.add_switch(f"s{k}", PROGRAMS / "telemetry.p4")
            switch.run(f"table_add hosts forward {A} => 1", f"table_add hosts forward {B} => 2")
            switch.run(f"table_set_default identity set_identity {k}")
        net.add_link("a", "s1")
        net.add_link("s1", "s2", ports=(2, 1), mbit=MBIT, queue_frames=QUEUE_FRAMES)
        net.add_link("s2", "b", ports=(2, None))
        yield net


class Queued(NamedTuple):
    """A frame of the plain queue: its number, and how many waited when it came and when it left."""

    number: int
    depth_before: int
    depth_after: int


def plain_queue(frame_bytes: int) -> list[Queued]:
    """Return the frames that a queue takes, which send at `MBIT` what arrives at equal intervals."""
    service_us = (frame_bytes + WIRE_OVERHEAD) * 8 / MBIT
    arrivals: list[float] = []
    starts: list[float] = []
    taken: list[tuple[int, int]] = []
    for number in range(FRAMES):
        now_us = float(number * INTERVAL_US)
        waiting = sum(start > now_us for start in starts)
        if waiting < QUEUE_FRAMES:
            taken.append((number, waiting))
            arrivals.append(now_us)
            starts.append(max(now_us, starts[-1] + service_us) if starts else now_us)
    return [
        Queued(
            number,
            before,
            sum(arrival <= begin < start for arrival, start in zip(arrivals, starts, strict=True)),
        )
        for (number, before), begin in zip(taken, starts, strict=True)
    ]


def test_frames_are_marked_and_traced_by_the_depths_of_a_plain_queue(line: Network) -> None:
    received = record(line, "b")
    header = ethernet(B, A, 0x1001) + bytes(2)
    line.host("a").send(
        [header + number.to_bytes(2, "big") + bytes(FRAME_BYTES - 18) for number in range(FRAMES)],
        every_us=INTERVAL_US,
        count=FRAMES,
    )
    line.run()
    hop_bytes = 5
    expected = plain_queue(FRAME_BYTES + hop_bytes)
    found = [
        Queued(int.from_bytes(f[26:28], "big"), f[14], int.from_bytes(f[22:26], "big")) for f in received
    ]
    assert found == [each._replace(depth_before=each.depth_before >= THRESHOLD) for each in expected]
    assert {frame[15:22] for frame in received} == {bytes((2, 2, 0, 0, 0, 0, 1))}  # s2's queue is empty
    # In 199 ms, 13 frames begin to be sent, each for 16.464 ms, and 64 wait; the first 11 find fewer than 10.
    assert len(received) == 13 + QUEUE_FRAMES
    assert sum(frame[14] for frame in received) == len(received) - 11
    assert found[11].depth_before == 1 and not found[10].depth_before


def test_probes_read_the_bytes_of_each_port_since_the_probe_before(line: Network) -> None:
    received = record(line, "b")
    probe = ethernet(B, A, 0x1002) + bytes(1)
    flow = ethernet(B, A, 0x0800).ljust(500, b"\0")
    line.host("a").send(flow, every_us=20_000, at_us=10_000, count=100)  # 50 a second: 0.2 Mbit/s
    line.host("a").send(probe, every_us=_US_PER_S, count=2)
    line.run()
    _, second = [frame for frame in received if frame[12:14] == b"\x10\x02"]
    reading_bytes = 17
    readings = [second[15 + k * reading_bytes :][:reading_bytes] for k in range(second[14])]
    by_switch = {each[0]: int.from_bytes(each[1:5], "big") for each in readings}
    frames = 50
    assert by_switch == {1: frames * 500 + 15, 2: frames * 500 + 15 + reading_bytes}
    since, until = (int.from_bytes(readings[1][k : k + 6], "big") for k in (5, 11))
    assert until - since == _US_PER_S
    assert by_switch[1] * 8 / (until - since) == pytest.approx(0.20012)  # Mbit/s


# -- calc, source_routing, load_balance, multicast


@pytest.fixture
def triangle() -> Iterator[Network]:
    """Switches s1, s2 and s3, each with a host at port 1, and at ports 4 to 6 of s1 three hosts more."""
    with Network() as net:
        for k in (1, 2, 3):
            net.add_switch(f"s{k}", PROGRAMS / "services.p4")
        for k, (switch, port) in enumerate(
            (("s1", 1), ("s2", 1), ("s3", 1), ("s1", 4), ("s1", 5), ("s1", 6)), start=1
        ):
            net.add_host(f"h{k}", f"10.0.0.{k}/24", mac=f"02:00:00:00:00:0{k}")
            net.add_link(f"h{k}", switch, ports=(None, port))
        net.add_link("s1", "s2", ports=(2, 2))
        net.add_link("s1", "s3", ports=(3, 2))
        net.add_link("s2", "s3", ports=(3, 3))
        yield net


def test_a_calculator_answers_its_asking_port_modulo_2_to_the_32(triangle: Network) -> None:
    answers, others = record(triangle, "h1"), record(triangle, "h4")
    cases = {
        (b"+", 2**32 - 1, 1): 0,
        (b"+", 2**32 - 1, 2**32 - 1): 2**32 - 2,
        (b"-", 0, 1): 2**32 - 1,
        (b"&", 0xF0F0, 0xFF00): 0xF000,
        (b"|", 0xF0F0, 0x0F0F): 0xFFFF,
        (b"^", 2**32 - 1, 0x12345678): 0xEDCBA987,
        (b"*", 2, 3): None,
    }
    for operation, a, b in cases:
        body = operation + a.to_bytes(4, "big") + b.to_bytes(4, "big") + bytes(4)
        triangle.host("h1").send(ethernet(B, A, 0x2001) + body)
        triangle.run()
    assert [int.from_bytes(frame[23:27], "big") for frame in answers] == [
        result for result in cases.values() if result is not None
    ]
    assert {frame[:12] for frame in answers} == {ethernet(A, B, 0)[:12]}
    assert others == []


@pytest.mark.parametrize("route", [(2, 1), (3, 3, 1), (2, 3, 2, 2, 1)])
def test_each_switch_pops_one_hop_of_a_source_route(triangle: Network, route: tuple[int, ...]) -> None:
    received = record(triangle, "h2")
    hops = b"".join(port.to_bytes(2, "big") for port in route[:-1])
    frame = ethernet(B, A, 0x2002) + hops + (0x8000 | route[-1]).to_bytes(2, "big") + bytes(30)
    trace = triangle.trace(triangle.host("h1").send(frame))
    triangle.run()
    assert [hop.sender.port for hop in trace.hops] == [None, *route]
    assert [len(hop.frame) for hop in trace.hops] == [len(frame) - 2 * k for k in range(len(route) + 1)]
    assert received == [ethernet(B, A, 0x2004) + bytes(30)]


def crc16(data: bytes) -> int:
    """Return the CRC-16/ARC of data, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def test_each_flow_takes_the_path_of_its_hash_and_no_other(triangle: Network) -> None:
    paths = [record(triangle, "h4"), record(triangle, "h5")]
    flows, repetitions = range(100), 5
    frames = [ethernet(B, A, 0x2003) + flow.to_bytes(2, "big") for flow in flows]
    triangle.host("h1").send(frames, every_us=10, count=len(frames) * repetitions)
    triangle.run()
    source = bytes.fromhex(A.replace(":", ""))
    for k, received in enumerate(paths):
        expected = [flow for flow in flows if crc16(source + flow.to_bytes(2, "big")) % 2 == k]
        assert [int.from_bytes(frame[14:16], "big") for frame in received] == expected * repetitions
    assert [len(received) for received in paths] == [250, 250]


def test_each_port_of_a_group_but_the_ingress_port_gets_one_copy(triangle: Network) -> None:
    triangle.switch("s1").run("mc_mgrp_create 1", "mc_node_create 1 1 4 5 6", "mc_node_associate 1 0")
    received = {name: record(triangle, name) for name in ("h1", "h2", "h3", "h4", "h5", "h6")}
    for sender in ("h1", "h5"):
        for frames in received.values():
            frames.clear()
        frame = ethernet("ff:ff:ff:ff:ff:ff", A, 0x9999).ljust(60, b"\0")
        triangle.host(sender).send(frame)
        triangle.run()
        members = {"h1", "h4", "h5", "h6"} - {sender}
        assert received == {name: [frame] if name in members else [] for name in received}


# -- flowcache

CPU_PORT, CPU_SESSION = 255, 57
UNKNOWN = 7
IDLE_S = 3


class CachingController:
    """Adds an entry to port 2 for each unknown destination, and deletes the entry when it is idle."""

    def __init__(self, net: Network, controller: Controller) -> None:
        self._net, self._controller = net, controller
        self.info = controller.get_pipeline().p4info
        self.packet_ins: list[tuple[float, list[int]]] = []
        self.idle_us: list[float] = []
        session = p4r.Entity()
        session.packet_replication_engine_entry.clone_session_entry.session_id = CPU_SESSION
        session.packet_replication_engine_entry.clone_session_entry.replicas.add(egress_port=CPU_PORT)
        self._update(p4r.Update.INSERT, session)
        controller.on_packet_in(self._add)
        controller.on_idle_timeout(self._delete)

    def _update(self, kind: int, entity: p4r.Entity) -> None:
        request = p4r.WriteRequest()
        request.updates.add(type=kind, entity=entity)
        self._controller.write(request)

    def _add(self, packet: p4r.PacketIn) -> None:
        values = [int.from_bytes(each.value, "big") for each in packet.metadata]
        self.packet_ins.append((self._net.now_us, values))
        entry = p4r.TableEntry(table_id=self.info.tables[0].preamble.id, idle_timeout_ns=IDLE_S * 10**9)
        entry.match.add(field_id=1).exact.value = packet.payload[:6].lstrip(b"\0")
        [forward] = [each.preamble.id for each in self.info.actions if each.preamble.alias == "forward"]
        entry.action.action.action_id = forward
        entry.action.action.params.add(param_id=1, value=b"\2")
        self._update(p4r.Update.INSERT, p4r.Entity(table_entry=entry))
        self._controller.packet_out(packet.payload, {1: b"\2"})

    def _delete(self, notification: p4r.IdleTimeoutNotification) -> None:
        self.idle_us.append(self._net.now_us)
        for idle in notification.table_entry:
            entry = p4r.TableEntry(table_id=idle.table_id, match=idle.match)
            self._update(p4r.Update.DELETE, p4r.Entity(table_entry=entry))


def test_only_the_first_frame_of_a_flow_goes_to_the_controller_until_the_flow_is_idle() -> None:
    with Network() as net:
        net.add_host("a", "10.0.0.1/24", mac=A)
        net.add_host("b", "10.0.0.2/24", mac=B)
        for name in ("s1", "s2"):
            net.add_switch(name, PROGRAMS / "flow_cache.p4", cpu_port=CPU_PORT)
        net.add_link("a", "s1")
        net.add_link("s1", "s2", ports=(2, 1))
        net.add_link("s2", "b", ports=(2, None))
        controllers = [CachingController(net, net.switch(name).connect()) for name in ("s1", "s2")]
        received = record(net, "b")
        frame = ethernet(B, A, 0x9999).ljust(60, b"\0")
        bursts = [begin_us + k * 100_000 for begin_us in (0, 6 * _US_PER_S) for k in range(10)]
        net.host("a").send(frame, times_us=bursts, count=len(bursts))
        net.run(until_s=8)
        assert received == [frame] * len(bursts)
        for each in controllers:
            assert each.packet_ins == [(0, [1, UNKNOWN]), (6 * _US_PER_S, [1, UNKNOWN])]
            assert each.idle_us == [900_000 + IDLE_S * _US_PER_S]
