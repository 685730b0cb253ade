"""Traffic manager: parse, replicate, queue and deparse packets around ingress and egress.

Where threads of BMv2's simple_switch may interleave, the order is defined here: egress of all copies of a
packet precedes the next packet that was resubmitted or recirculated. One frame causes at most `MAX_PASSES`
passes through ingress or egress; remaining packets are dropped. Queues of ports, which the caller provides,
lie between `enter` and `leave`; for `process` they are always empty, so their depths and times are 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from softswitch import ir
from softswitch.interpreter.calculations import update_checksums, verify_checksums
from softswitch.interpreter.controls import Controls
from softswitch.interpreter.expressions import UINT32
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.observer import Observer, Origin
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.parser import parse
from softswitch.interpreter.statements import PacketDropped, execute
from softswitch.limits import MAX_PASSES, MAX_RECIRCULATED_BYTES
from softswitch.pipeline import DigestMessage, Output, PassResult, QueueDepths, Replica, WaitingPacket
from softswitch.v1model import DROP_PORT, EGRESS_SPEC_BEFORE_EGRESS, InstanceType, Standard


class CloneSession(NamedTuple):
    """Replicas of a clone session, and the length in bytes to which clones are truncated, 0 for none."""

    replicas: tuple[Replica, ...]
    length: int


class QueuedPacket(NamedTuple):
    port: int
    packet: Packet


class TrafficManager:
    def __init__(
        self,
        program: ir.Program,
        externs: Externs,
        controls: Controls,
        priority_queues: int,
        observer: Observer[Packet],
    ) -> None:
        self._program = program
        self._observer = observer
        self._priority_queues = priority_queues
        self._externs = externs
        self._controls = controls
        self._ingress: deque[Packet] = deque()
        self._egress: deque[QueuedPacket] = deque()
        self._recirculated_bytes = 0
        self.value_sets: list[list[int]] = [[] for _ in program.value_sets]
        self.groups: dict[int, tuple[Replica, ...]] = {}
        self.sessions: dict[int, CloneSession] = {}

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        outputs: list[Output] = []
        self._start_call(now)
        self._enqueue_arrival(port, frame, t_in)
        self._run_passes(lambda queued: outputs.extend(self._run_egress(queued, QueueDepths())))
        return outputs

    def enter(self, port: int, frame: bytes, t_in: int, now: int) -> PassResult:
        waiting_packets: list[WaitingPacket] = []
        self._start_call(now)
        self._enqueue_arrival(port, frame, t_in)
        self._run_passes(lambda queued: waiting_packets.append(_waiting_packet(queued)))
        return PassResult([], waiting_packets)

    def leave(self, waiting: WaitingPacket, depths: QueueDepths, now: int) -> PassResult:
        assert isinstance(waiting.packet, Packet)
        waiting_packets: list[WaitingPacket] = []
        self._start_call(now)
        outputs = self._run_egress(QueuedPacket(waiting.port, waiting.packet), depths)
        # Egress above was the first pass.
        self._run_passes(
            lambda queued: waiting_packets.append(_waiting_packet(queued)), max_passes=MAX_PASSES - 1
        )
        return PassResult(outputs, waiting_packets)

    def report_dropped(self, waiting: WaitingPacket, reason: str) -> None:
        assert isinstance(waiting.packet, Packet)
        self._observer.dropped(waiting.packet, reason)

    def _start_call(self, now: int) -> None:
        self._externs.now = now
        self._recirculated_bytes = 0

    def _enqueue_arrival(self, port: int, frame: bytes, t_in: int) -> None:
        packet = self._new_packet(port, frame, len(frame))
        packet.set_standard(Standard.INGRESS_PORT, port)
        packet.set_standard(Standard.PACKET_LENGTH, len(frame))
        packet.set_standard(Standard.INGRESS_GLOBAL_TIMESTAMP, t_in)
        self._observer.begins(packet, Origin.ARRIVAL, None)
        self._ingress.append(packet)

    def _run_passes(
        self, handle_queued: Callable[[QueuedPacket], None], max_passes: int = MAX_PASSES
    ) -> None:
        for _ in range(max_passes):
            if self._egress:
                handle_queued(self._egress.popleft())
            elif self._ingress:
                self._run_ingress(self._ingress.popleft())
            else:
                break
        for packet in (*(queued.packet for queued in self._egress), *self._ingress):
            self._observer.dropped(packet, f"one frame causes {MAX_PASSES} passes at most")
        self._egress.clear()
        self._ingress.clear()

    def _new_packet(self, port: int, frame: bytes, ingress_length: int) -> Packet:
        return Packet(self._program, port, frame, ingress_length, len(frame), self._observer)

    def _execute(self, packet: Packet, statement: ir.Statement) -> None:
        execute(self._externs, packet, statement)

    def _parse(self, packet: Packet) -> int:
        return parse(packet, self.value_sets, self._execute)

    # -- ingress

    def _run_ingress(self, packet: Packet) -> None:
        try:
            packet.set_standard(Standard.PARSER_ERROR, self._parse(packet))
            packet.set_standard(Standard.CHECKSUM_ERROR, int(not verify_checksums(packet)))
            self._controls.run(packet, self._program.ingress)
        except PacketDropped as error:
            self._observer.dropped(packet, str(error))
            return
        self._clone_from_ingress(packet)
        self._send_digest(packet)
        group = packet.get_standard(Standard.MCAST_GRP)
        port = packet.get_standard(Standard.EGRESS_SPEC)
        if packet.resubmit is not None:
            self._resubmit(packet, packet.resubmit)
        elif group:
            packet.set_standard(Standard.INSTANCE_TYPE, InstanceType.REPLICATED)
            self._replicate(packet, self.groups.get(group, ()), f"multicast group {group}")
        elif port != DROP_PORT:
            packet.set_standard(Standard.INSTANCE_TYPE, InstanceType.NORMAL)
            self._enqueue(port, packet)
        else:
            self._observer.dropped(packet, f"egress_spec is {DROP_PORT} at the end of ingress")

    def _clone_from_ingress(self, packet: Packet) -> None:
        """Clone the frame as it arrived: it is parsed again, with no metadata except the port."""
        if packet.clone is None:
            return
        request, packet.clone = packet.clone, None
        clone = self._new_packet(packet.port, packet.frame, packet.ingress_length)
        clone.set_standard(Standard.INGRESS_PORT, packet.port)
        self._observer.begins(clone, Origin.INGRESS_CLONE, packet)
        try:
            self._parse(clone)
        except PacketDropped as error:
            self._observer.dropped(clone, str(error))
            return
        clone.reset_metadata(packet, request.field_list)
        clone.set_standard(Standard.INSTANCE_TYPE, InstanceType.INGRESS_CLONE)
        self._replicate_clone(clone, request.session)

    def _send_digest(self, packet: Packet) -> None:
        if packet.digest is not None:
            values = tuple(
                _digest_value(packet, value) for value in self._program.digests[packet.digest].values
            )
            notice = DigestMessage(packet.digest, values)
            self._externs.notices.append(notice)
            self._observer.notified(packet, notice)

    def _resubmit(self, packet: Packet, field_list: int) -> None:
        copy = self._new_packet(packet.port, packet.frame, packet.ingress_length)
        copy.reset_metadata(packet, field_list)
        copy.set_standard(Standard.INSTANCE_TYPE, InstanceType.RESUBMITTED)
        copy.set_standard(Standard.PACKET_LENGTH, len(packet.frame))
        self._observer.begins(copy, Origin.RESUBMIT, packet)
        self._ingress.append(copy)

    # -- between ingress and egress

    def _replicate_clone(self, clone: Packet, session_number: int) -> None:
        session = self.sessions.get(session_number, CloneSession(replicas=(), length=0))
        self._replicate(clone, session.replicas, f"clone session {session_number}", session.length or None)

    def _replicate(
        self, packet: Packet, replicas: Sequence[Replica], source: str, length: int | None = None
    ) -> None:
        """Queue a copy for each replica, truncated to `length` bytes; earlier truncations do not apply."""
        if not replicas:
            self._observer.dropped(packet, f"{source} has no replicas")
        for replica in replicas:
            copy = packet.make_copy()
            copy.truncated_length = length
            copy.set_standard(Standard.EGRESS_RID, replica.instance)
            self._observer.begins(copy, Origin.REPLICA, packet)
            self._enqueue(replica.port, copy)

    def _enqueue(self, port: int, packet: Packet) -> None:
        """Queue a packet for egress; BMv2 drops packets whose priority has no queue."""
        priority = packet.get_standard(Standard.PRIORITY)
        if priority >= self._priority_queues:
            self._observer.dropped(
                packet, f"priority {priority} has no queue: expected less than {self._priority_queues}"
            )
            return
        packet.set_standard(Standard.ENQ_TIMESTAMP, self._externs.now & UINT32)
        self._observer.queued(packet, port)
        self._egress.append(QueuedPacket(port, packet))

    # -- egress

    def _run_egress(self, queued: QueuedPacket, depths: QueueDepths) -> list[Output]:
        port, packet = queued
        now, enqueue_time = self._externs.now, packet.get_standard(Standard.ENQ_TIMESTAMP)
        packet.set_standard(Standard.EGRESS_GLOBAL_TIMESTAMP, now)
        packet.set_standard(Standard.ENQ_QDEPTH, depths.enq)
        packet.set_standard(Standard.DEQ_TIMEDELTA, now - enqueue_time)
        packet.set_standard(Standard.DEQ_QDEPTH, depths.deq)
        packet.set_standard(Standard.EGRESS_PORT, port)
        packet.set_standard(Standard.EGRESS_SPEC, EGRESS_SPEC_BEFORE_EGRESS)
        packet.set_standard(Standard.PACKET_LENGTH, packet.length)
        self._observer.leaves_queue(packet)
        try:
            self._controls.run(packet, self._program.egress)
            self._clone_from_egress(packet)
            if packet.get_standard(Standard.EGRESS_SPEC) == DROP_PORT:
                self._observer.dropped(packet, f"egress_spec is {DROP_PORT} at the end of egress")
                return []
            frame = _deparse(packet, self._execute)
        except PacketDropped as error:
            self._observer.dropped(packet, str(error))
            return []
        if packet.recirculate is not None:
            self._recirculate(packet, frame, packet.recirculate)
            return []
        output = Output(port, frame[: packet.truncated_length])
        self._observer.sent(packet, port, output.frame)
        return [output]

    def _clone_from_egress(self, packet: Packet) -> None:
        if packet.clone is None:
            return
        request, packet.clone = packet.clone, None
        clone = packet.make_copy()
        clone.reset_metadata(packet, request.field_list)
        clone.set_standard(Standard.INSTANCE_TYPE, InstanceType.EGRESS_CLONE)
        self._observer.begins(clone, Origin.EGRESS_CLONE, packet)
        self._replicate_clone(clone, request.session)

    def _recirculate(self, packet: Packet, frame: bytes, field_list: int) -> None:
        """Recirculate a frame; as in compiled code, the limit counts its length with all headers valid."""
        if self._recirculated_bytes + _max_frame_bytes(packet) > MAX_RECIRCULATED_BYTES:
            self._observer.dropped(packet, f"one frame recirculates {MAX_RECIRCULATED_BYTES} bytes at most")
            return
        self._recirculated_bytes += len(frame)
        copy = self._new_packet(packet.port, frame, len(frame))
        copy.reset_metadata(packet, field_list)
        copy.set_standard(Standard.INSTANCE_TYPE, InstanceType.RECIRCULATED)
        copy.set_standard(Standard.PACKET_LENGTH, len(frame))
        self._observer.begins(copy, Origin.RECIRCULATE, packet)
        self._ingress.append(copy)


def _waiting_packet(queued: QueuedPacket) -> WaitingPacket:
    """Return a waiting packet with its truncated length, at least 0: BMv2's packet length can be negative."""
    port, packet = queued
    length = max(0, packet.length)
    if packet.truncated_length is not None:
        length = min(length, packet.truncated_length)
    return WaitingPacket(port, packet.get_standard(Standard.PRIORITY), length, packet)


def _digest_value(packet: Packet, value: ir.FieldRef | ir.SizedConstant) -> int:
    return packet.bits(value) if isinstance(value, ir.FieldRef) else value.value


# -- the deparser. BMv2: deparser.cpp


def _deparse(packet: Packet, execute: Callable[[Packet, ir.Statement], None]) -> bytes:
    update_checksums(packet)
    packet.observer.deparses(packet)
    for statement in packet.program.deparser_body:
        execute(packet, statement)
        packet.observer.executed(packet, statement)
    headers = (packet.header_bytes(header) for header in packet.program.deparser if packet.valid[header])
    frame = b"".join(headers) + packet.frame[packet.position :]
    packet.observer.deparsed(packet, frame)
    return frame


def _max_frame_bytes(packet: Packet) -> int:
    header_bytes = sum(packet.program.headers[header].max_bytes for header in packet.program.deparser)
    return header_bytes + len(packet.frame) - packet.position
