"""Frames over gRPC, nanomsg and pcap files instead of interfaces, in process and without privileges."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.frames import grpc_stream
from softswitch.frames.dataplane import (
    STATUS_DOWN,
    STATUS_UP,
    Packet,
    PortStatus,
    packet_stream,
    set_port_status,
)
from softswitch.frames.grpc_stream import FrameQueue, GrpcStream
from softswitch.frames.nanomsg import PACKET_IN, PACKET_OUT, PORT_ADD, Nanomsg
from softswitch.frames.pcap_files import PcapFiles
from softswitch.frames.ports import MAX_FRAME_BYTES, FramePorts
from softswitch.pcap import file_header, read_frames
from softswitch.pipeline import ActionCall, Change, DigestMessage, EntryWrite, LogRecord
from switch_harness.constructs import compiled
from switch_harness.p4runtime import SMALL_WINDOW
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions

DEVICE, CPU, TAG = 3, 255, 2**63
FRAME = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(46)


def pipeline(name: str) -> CompiledPipeline:
    return CompiledPipeline(compiled(name))


class Queue:
    name, address = "queue", "here"

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes, int]] = []

    def open(self, _ports: FramePorts) -> None:
        pass

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        self.sent.append((port, frame, tag))
        return port < 100

    def close(self) -> None:
        pass


def test_frames_of_any_port_and_length_are_processed() -> None:
    queue = Queue()
    with FramePorts(queue) as ports:
        ports.receive(1, b"early")
        ports.start(pipeline("wire"))  # sends all to port 2
        frames = [bytes(range(length)) for length in range(1, 12)]
        for number, frame in enumerate(frames):
            ports.receive(500, frame, number)
        ports.receive(1, bytes(MAX_FRAME_BYTES + 1))
        ports.stop()
        ports.receive(1, b"late")
        assert queue.sent == [(2, frame, number) for number, frame in enumerate(frames)]
        counters = ports.counters().ports
        assert (counters[1].rx, counters[1].rx_dropped, counters[1].rx_oversize) == (3, 2, 1)
        assert (counters[500].rx, counters[2].tx) == (len(frames), len(frames))


def test_the_controller_has_the_cpu_port_and_notices() -> None:
    queue = Queue()
    with FramePorts(queue, CPU) as ports:
        ports.cpu_socket.settimeout(PATIENCE_S)
        made = pipeline("l2")
        entries = [(0x0B, 7), (0x0C, CPU), (0x0D, 200)]
        writes = [
            EntryWrite(Change.INSERT, "L2Ingress.hosts", (mac,), forward(port)) for mac, port in entries
        ]
        assert made.tables.write(writes) == [None] * len(entries)
        ports.start(made)
        to_cpu = bytes(5) + b"\x0c" + FRAME[6:]
        ports.receive(1, to_cpu)
        assert ports.cpu_socket.recv(100) == to_cpu
        ports.receive(1, bytes(5) + b"\x0d" + FRAME[6:])
        ports.cpu_socket.send(FRAME)
        ports.cpu_socket.send(to_cpu)
        assert ports.cpu_socket.recv(100) == to_cpu  # and the frame before it has been processed
        assert [port for port, _, _ in queue.sent] == [200, 7]
        counters = ports.counters().ports
        assert (counters[CPU].rx, counters[CPU].tx, counters[200].tx_dropped) == (2, 2, 1)


def forward(port: int) -> ActionCall:
    return ActionCall("L2Ingress.forward", (port,))


def test_digests_and_log_records_reach_the_controller() -> None:
    with FramePorts(Queue()) as ports:
        ports.notice_socket.settimeout(PATIENCE_S)
        made = pipeline("digests_logs")
        ports.start(made)
        probe = bytes([1 | 4]) + bytes(30)  # learn and log
        ports.receive(1, probe)
        expected = pipeline("digests_logs")
        expected.process(1, probe, 0, 0)
        notices = expected.take_notices()
        assert {type(each) for each in notices} == {DigestMessage, LogRecord}
        assert [made.decode_notice(ports.notice_socket.recv(1000)) for _ in notices] == notices


def test_commands_that_need_interfaces_are_refused() -> None:
    with FramePorts(Queue()) as ports:
        calls: list[Callable[[], None]] = [
            lambda: ports.add(1, "veth0"),
            lambda: ports.remove(1),
            lambda: ports.set_queues(None, None, 1, None),
        ]
        for call in calls:
            with pytest.raises(SwitchError, match=mentions("switch", "frames")):
                call()


# -- gRPC


@pytest.fixture
def stream() -> Iterator[tuple[FramePorts, grpc.Channel]]:
    transport = GrpcStream("127.0.0.1:0", DEVICE)
    with FramePorts(transport) as ports, grpc.insecure_channel(transport.address) as channel:
        yield ports, channel


def packet(port: int, frame: bytes, tag: int = 0, device: int = DEVICE) -> Any:  # a generated message
    return Packet(id=tag, device_id=device, port=port, packet=frame)


def exchange(channel: grpc.Channel, *packets: Any) -> list[Any]:
    return list(packet_stream(channel)(iter(packets), timeout=PATIENCE_S))


def test_a_stream_ends_when_all_its_frames_are_processed(stream: tuple[FramePorts, grpc.Channel]) -> None:
    ports, channel = stream
    ports.start(pipeline("wire"))
    sent = [
        packet(1, b"ab", TAG),
        packet(1, b"no", device=DEVICE + 1),
        packet(1, b""),
        packet(9, bytes(1500)),
    ]
    for _ in range(3):  # one client after the other
        assert exchange(channel, *sent) == [packet(2, b"ab", TAG), packet(2, bytes(1500))]


def test_streams_are_refused_before_a_program_and_beside_a_client(
    stream: tuple[FramePorts, grpc.Channel],
) -> None:
    ports, channel = stream
    assert code(lambda: exchange(channel)) is grpc.StatusCode.UNAVAILABLE
    ports.start(pipeline("wire"))
    requests: SimpleQueue[Any] = SimpleQueue()
    requests.put(packet(1, b"first"))
    first = packet_stream(channel)(iter(requests.get, None), timeout=PATIENCE_S)
    assert next(first).packet == b"first"
    assert code(lambda: exchange(channel)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    ports.receive(4, b"from elsewhere")  # as a packet-out
    assert next(first) == packet(2, b"from elsewhere")
    requests.put(None)
    assert list(first) == []


def test_a_client_that_leaves_makes_room_for_the_next_client(stream: tuple[FramePorts, grpc.Channel]) -> None:
    ports, channel = stream
    ports.start(pipeline("wire"))
    requests: SimpleQueue[Any] = SimpleQueue()
    requests.put(packet(1, b"first"))
    first = packet_stream(channel)(iter(requests.get, None))
    next(first)
    first.cancel()
    requests.put(None)
    while code(lambda: exchange(channel)) is grpc.StatusCode.RESOURCE_EXHAUSTED:
        pass
    assert exchange(channel, packet(1, b"second")) == [packet(2, b"second")]


def test_frames_for_a_client_that_does_not_read_are_bounded(
    stream: tuple[FramePorts, grpc.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own frames wait and none is lost; those of others are dropped and counted."""
    most = 50
    monkeypatch.setattr(grpc_stream, "MAX_QUEUED_FRAMES", most)
    queues: list[RecordingQueue] = []
    monkeypatch.setattr(grpc_stream, "FrameQueue", lambda: RecordingQueue(queues))
    ports, _ = stream
    ports.start(pipeline("wire"))
    number, unread = 1000, bytes(1 << 15)  # more than gRPC stores for a client that does not read
    with grpc.insecure_channel(ports._transport.address, SMALL_WINDOW) as channel:
        requests = iter([packet(1, unread, tag) for tag in range(1, number + 1)])
        responses = packet_stream(channel)(requests, timeout=PATIENCE_S)
        wait_for(lambda: bool(queues) and len(queues[0]) == most)
        for _ in range(2 * most):
            ports.receive(4, b"other")
        assert ports.counters().ports[2].tx_dropped == most
        received = list(responses)
    assert [each.id for each in received if each.packet == unread] == list(range(1, number + 1))
    assert len(received) == number + most
    assert queues[0].longest == 2 * most


class RecordingQueue(FrameQueue):
    def __init__(self, queues: list[RecordingQueue]) -> None:
        super().__init__()
        self.longest = 0
        queues.append(self)

    def put(self, frame: Any) -> bool:
        is_added = super().put(frame)
        self.longest = max(self.longest, len(self))
        return is_added


def test_the_ports_close_while_a_client_has_a_stream() -> None:
    transport = GrpcStream("127.0.0.1:0", DEVICE)
    requests: SimpleQueue[Any] = SimpleQueue()
    with FramePorts(transport) as ports, grpc.insecure_channel(transport.address) as channel:
        ports.start(pipeline("wire"))
        requests.put(packet(1, b"first"))
        responses = packet_stream(channel)(iter(requests.get, None))
        assert next(responses).packet == b"first"
        ports.close()
        assert code(lambda: next(responses)) in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        requests.put(None)
    # The client may see the end before the thread that reads its requests does.
    wait_for(lambda: not any("_read" in each.name for each in threading.enumerate()))


def code(call: Callable[[], object]) -> grpc.StatusCode | None:
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return None


def test_ports_go_down_and_up(stream: tuple[FramePorts, grpc.Channel]) -> None:
    ports, channel = stream

    def set_status(status: int, device: int = DEVICE) -> grpc.StatusCode | None:
        request = PortStatus(device_id=device, port=4, oper_status=status)
        return code(lambda: set_port_status(channel)(request, timeout=PATIENCE_S))

    reports: list[tuple[int, bool]] = []
    ports.on_status = lambda port, is_up: reports.append((port, is_up))
    assert ports.is_up(4)
    assert (set_status(STATUS_DOWN), ports.is_up(4)) == (None, False)
    assert (set_status(STATUS_UP), ports.is_up(4)) == (None, True)
    assert reports == [(4, False), (4, True)]
    assert set_status(0) is set_status(STATUS_UP, DEVICE + 1) is grpc.StatusCode.INVALID_ARGUMENT


def test_an_address_in_use_is_named(stream: tuple[FramePorts, grpc.Channel]) -> None:
    transport = stream[0]._transport
    assert isinstance(transport, GrpcStream)
    with pytest.raises(SwitchError, match=mentions("--dp-grpc-server-addr", transport.address)):
        FramePorts(GrpcStream(transport.address, DEVICE))


# -- nanomsg


def test_frames_cross_the_switch_over_nanomsg(tmp_path: Path) -> None:
    pynng = pytest.importorskip("pynng")  # an extra, which `pip install ./packages/softswitch` leaves out
    address = f"ipc://{tmp_path}/frames.ipc"
    with (
        FramePorts(Nanomsg(address)) as ports,
        pynng.Pair0(dial=address, recv_timeout=PATIENCE_S * 1000) as peer,
    ):
        ports.start(pipeline("wire"))
        peer.send(struct.pack("=iii", PORT_ADD, 1, 0))
        peer.send(b"short")
        for frame in (b"ab", bytes(1500)):
            peer.send(struct.pack("=iii", PACKET_IN, 1, len(frame)) + frame)
            assert peer.recv() == struct.pack("=iii", PACKET_OUT, 2, len(frame)) + frame
        peer.send(struct.pack("=iii", 5, 1, 1))  # INFO_REQ
        assert struct.unpack("=iiii", peer.recv()) == (6, 1, 1, 1)  # not supported
        with pytest.raises(SwitchError, match=mentions("--packet-in", "tcp://nowhere")):
            FramePorts(Nanomsg("tcp://nowhere.invalid"))


# -- pcap files


def capture(*frames: tuple[float, bytes]) -> bytes:
    records = (
        struct.pack("<IIII", int(t), round(t % 1 * 1e6), len(frame), len(frame)) + frame
        for t, frame in frames
    )
    return file_header() + b"".join(records)


def test_files_are_merged_by_time(tmp_path: Path) -> None:
    (tmp_path / "a_in.pcap").write_bytes(capture((1.0, b"first"), (3.5, b"third")))
    (tmp_path / "b_in.pcap").write_bytes(capture((1.0, b"second"), (3.6, b"fourth")))
    files = PcapFiles({1: "a", 2: "b"}, folder=tmp_path)
    with FramePorts(files) as ports:
        ports.start(pipeline("wire"))
        files._thread.join(PATIENCE_S)
        with (tmp_path / "b_out.pcap").open("rb") as written:
            assert [frame for _, frame in read_frames(written, "")] == [
                b"first",
                b"second",
                b"third",
                b"fourth",
            ]
    assert (tmp_path / "a_out.pcap").read_bytes() == file_header()


def test_pipes_are_read_while_the_writer_writes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a_in.pcap")
    files = PcapFiles({2: "a"}, folder=tmp_path)
    with FramePorts(files) as ports:
        ports.start(pipeline("wire"))
        with (tmp_path / "a_in.pcap").open("wb", buffering=0) as pipe:
            pipe.write(capture((1.0, b"first")))
            pipe.write(capture((2.0, b"second"))[len(file_header()) :])
        files._thread.join(PATIENCE_S)
    with (tmp_path / "a_out.pcap").open("rb") as out:
        assert [frame for _, frame in read_frames(out, "")] == [b"first", b"second"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_pcap_files_of_every_byte_order_and_time_unit_are_read(
    tmp_path: Path, order: str, magic: int, unit: int
) -> None:
    header = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    (tmp_path / "file").write_bytes(header + struct.pack(order + "IIII", 5, 7, 2, 2) + b"ab")
    with (tmp_path / "file").open("rb") as file:
        assert list(read_frames(file, "file")) == [(5 * 10**9 + 7 * unit, b"ab")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"\x0a\x0d\x0d\x0a" + bytes(30), ["pcapng", "editcap"]),
        (b"\x0a\x0d" + bytes(30), ["0a0d0000"]),
        (capture((1.0, b"frame"))[:-1], ["frame 1", "4 of its 5 bytes"]),
        (capture((1.0, b"frame"), (2.0, b"frame"))[:-6], ["frame 2", "header"]),
    ],
)
def test_an_invalid_capture_is_refused(tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file, pytest.raises(SwitchError) as refused:
        list(read_frames(file, "file"))
    assert all(word in str(refused.value) for word in ["file: ", *words])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SwitchError, match=mentions("a_in.pcap", "file")):
        FramePorts(PcapFiles({1: "a"}, folder=tmp_path))
