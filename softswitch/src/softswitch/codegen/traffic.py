"""Emit the traffic manager: drop, unicast, multicast, clones, resubmit and recirculate.

A program without the last four needs only `unicast`. In others, packets wait in two queues in the state's
memory; egress has precedence over ingress. The semantics are those of BMv2's simple_switch.cpp, which uses
threads and queues. `run` is a range of replicas, or 0 for a single packet (`PassQueue`).
"""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.loops import OpaqueVariable
from softswitch.codegen.packet import Packet
from softswitch.codegen.parser import emit_parser
from softswitch.codegen.pass_queue import QUEUE_CAPACITY, RUN_BYTES, PassQueue
from softswitch.codegen.statements import ActionEmitter
from softswitch.codegen.storage import NOT_TRUNCATED
from softswitch.limits import MAX_PASSES, MAX_RECIRCULATED_BYTES
from softswitch.llvmir import I32, I64, byte_offset, integer, resize, word
from softswitch.memory.layout import SESSION_WORDS
from softswitch.memory.words import HALF, LOW, pack_halves
from softswitch.target import target_of
from softswitch.v1model import DROP_PORT, PORT_BITS, InstanceType, Standard


def needs_queues(program: ir.Program) -> bool:
    requeuing = (ir.Clone, ir.Resubmit, ir.Recirculate)
    return any(program.has(kind) for kind in requeuing) or program.sets_standard(Standard.MCAST_GRP)


class Traffic:
    """Emitter of the code between a packet's ingress and egress passes.

    `ingress` and `egress` are the blocks in which a pass begins; `egress` of a buffered function enqueues the
    packet.
    """

    def __init__(
        self, actions: ActionEmitter, ingress: llvm.Block, egress: llvm.Block, priority_queues: int
    ) -> None:
        self.actions, self.packet, self.b = actions, actions.packet, actions.b
        self.priority_queues = priority_queues
        self.program = self.packet.program
        self.ingress, self.egress = ingress, egress
        self.next_block = actions.drop_block
        self.has_queues = needs_queues(self.program)
        if self.has_queues:
            self.saved = Packet(self.b, self.program, copied=True)
            base = word(self.b, actions.state, actions.layout.work)
            self.to_egress = PassQueue(self.packet, base)
            self.to_ingress = PassQueue(self.packet, byte_offset(self.b, base, self.to_egress.bytes))
            both = self.b.shl(self.to_egress.bytes, integer(64, 1))
            self.frames = byte_offset(self.b, base, both)
            self._frames_used = OpaqueVariable(self.b, I64, name="frames_used")
            self._passes = OpaqueVariable(self.b, I32, name="passes")

    def count_pass(self) -> None:
        if self.has_queues:
            target_of(self.b.module).loop_guard(self.b)
            passes = self.b.add(self._passes.get(), integer(32, 1))
            self._passes.set(passes)
            too_many = self.b.append_basic_block("passes_ended")
            self.packet.require(self.b.icmp_unsigned("<=", passes, integer(32, MAX_PASSES)), too_many)
            with self.b.goto_block(too_many):
                self.b.ret(self.actions.output.count())

    def next(self) -> None:
        b = self.b
        if self.has_queues:
            with b.if_then(self.to_egress.has_packets()):
                self._take_for_egress()
            with b.if_then(self.to_ingress.has_packets()):
                self.to_ingress.restore()
                self.to_ingress.advance()
                b.branch(self.ingress)
        b.ret(self.actions.output.count())

    def _take_for_egress(self) -> None:
        b = self.b
        self.to_egress.restore()
        run = self.to_egress.run()
        with b.if_else(b.icmp_unsigned("==", run, integer(64, 0))) as (single, copies):
            with single:
                self.to_egress.advance()
            with copies:
                first = b.lshr(run, integer(64, HALF))
                pool = integer(64, self.actions.layout.replication.pool)
                replica = b.load(word(b, self.actions.state, b.add(first, pool)), typ=I64)
                self.packet.set("egress_port", resize(b, b.lshr(replica, integer(64, HALF)), 32))
                self.packet.store_standard(Standard.EGRESS_RID, replica)
                rest = b.add(run, integer(64, pack_halves(1, 0) - 1))  # first + 1, remaining - 1
                self.to_egress.set_run(rest)
                with b.if_then(b.icmp_unsigned("==", b.and_(rest, integer(64, LOW)), integer(64, 0))):
                    self.to_egress.advance()
        self._enter_egress()

    # -- after ingress

    def after_ingress(self) -> None:
        program = self.program
        if program.has(ir.Clone):
            self._clone(InstanceType.INGRESS_CLONE)
        if program.has(ir.Digest):
            self._digest()
        if program.has(ir.Resubmit):
            self._resubmit()
        if program.sets_standard(Standard.MCAST_GRP):
            self._multicast()
        self._unicast()

    def _digest(self) -> None:
        b = self.b
        requested = self.packet.get("digest")
        for number in range(len(self.program.digests)):
            with b.if_then(b.icmp_unsigned("==", requested, integer(32, number + 1))):
                self.actions.output.digest(number)

    def _resubmit(self) -> None:
        b, packet = self.b, self.packet
        field_list = packet.get("resubmit_list")
        with b.if_then(b.icmp_unsigned("!=", field_list, integer(32, 0))):
            self._save()
            self._begin_packet(packet.get("frame"), packet.get("ingress_length"))
            self._copy_fields(field_list, InstanceType.RESUBMITTED)
            packet.store_standard(Standard.PACKET_LENGTH, packet.get("ingress_length"))
            self._queue(self.to_ingress, integer(64, 0))

    def _multicast(self) -> None:
        b, packet, layout = self.b, self.packet, self.actions.layout.replication
        group = resize(b, packet.load_standard(Standard.MCAST_GRP), 64)
        with b.if_then(b.icmp_unsigned("!=", group, integer(64, 0))):
            packet.store_standard(Standard.INSTANCE_TYPE, integer(32, InstanceType.REPLICATED))
            self._reset_requests(integer(32, NOT_TRUNCATED))
            at = b.add(group, integer(64, layout.multicast))
            run = b.load(word(b, self.actions.state, at), typ=I64)
            packet.require(self._has_copies(run), self.next_block)
            self._queue(self.to_egress, run)

    def _unicast(self) -> None:
        b, packet = self.b, self.packet
        port = packet.load_standard(Standard.EGRESS_SPEC)
        packet.require(b.icmp_unsigned("!=", port, integer(PORT_BITS, DROP_PORT)), self.next_block)
        packet.store_standard(Standard.INSTANCE_TYPE, integer(32, InstanceType.NORMAL))
        packet.set("egress_port", resize(b, port, 32))
        if self.has_queues:
            with b.if_then(self.to_egress.has_packets()):
                self._queue(self.to_egress, integer(64, 0))
        self._enter_egress()

    def _enter_egress(self) -> None:
        """Drop a packet whose priority has no queue, as BMv2 does, and branch to egress."""
        b, packet = self.b, self.packet
        if self.program.sets_standard(Standard.PRIORITY):
            priority = b.zext(packet.load_standard(Standard.PRIORITY), I32)
            has_queue = b.icmp_unsigned("<", priority, integer(32, self.priority_queues))
            packet.require(has_queue, self.next_block)
        packet.store_standard(Standard.ENQ_TIMESTAMP, self.actions.now)
        b.branch(self.egress)

    # -- after egress

    def clone_after_egress(self) -> None:
        if self.program.has(ir.Clone):
            self._clone(InstanceType.EGRESS_CLONE)

    def reserve_frame(self, size: llvm.Value) -> tuple[llvm.Value, llvm.Value]:
        """Return the address for a recirculated frame, and an `i1`: whether it fits."""
        b = self.b
        used = self._frames_used.get()
        fits = b.icmp_unsigned("<=", b.add(used, size), integer(64, MAX_RECIRCULATED_BYTES))
        return byte_offset(b, self.frames, used), fits

    def recirculate(self, frame: llvm.Value, length: llvm.Value) -> None:
        b, packet = self.b, self.packet
        self._frames_used.set(b.add(self._frames_used.get(), length))
        field_list = packet.get("recirculate_list")
        self._save()
        self._begin_packet(frame, resize(b, length, 32))
        self._copy_fields(field_list, InstanceType.RECIRCULATED)
        packet.store_standard(Standard.PACKET_LENGTH, packet.get("ingress_length"))
        self._queue(self.to_ingress, integer(64, 0))

    # -- clones

    def _clone(self, kind: InstanceType) -> None:
        b, packet, layout = self.b, self.packet, self.actions.layout.replication
        session = packet.get("clone_session")
        with b.if_then(b.icmp_unsigned("!=", session, integer(32, 0))):
            number = b.zext(b.sub(session, integer(32, 1)), I64)
            at = b.add(b.mul(number, integer(64, SESSION_WORDS)), integer(64, layout.sessions))
            run = b.load(word(b, self.actions.state, at), typ=I64)
            length = b.load(word(b, self.actions.state, b.add(at, integer(64, 1))), typ=I64)
            with b.if_then(self._has_copies(run)):
                field_list = b.add(packet.get("clone_list"), integer(32, 1))
                self._save()
                if kind is InstanceType.INGRESS_CLONE:
                    self._reparse()
                packet.clear_metadata()
                self._copy_fields(field_list, kind)
                is_whole = b.icmp_unsigned("==", length, integer(64, 0))
                self._reset_requests(b.select(is_whole, integer(32, NOT_TRUNCATED), resize(b, length, 32)))
                self.to_egress.push(run)
                self._restore()
            packet.set("clone_session", integer(32, 0))

    def _reparse(self) -> None:
        """Parse the arrived frame a second time, since no copy of the parsed packet exists."""
        packet = self.packet
        self._begin_packet(packet.get("frame"), packet.get("ingress_length"))
        packet.store_standard(Standard.INGRESS_PORT, packet.get("port"))
        emit_parser(self.actions)

    def _has_copies(self, run: llvm.Value) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.b.and_(run, integer(64, LOW)), integer(64, 0))

    # -- copies of the packet

    def _save(self) -> None:
        self.packet.copy_bytes(self.saved.memory, self.packet.memory, self.packet.size())

    def _restore(self) -> None:
        self.packet.copy_bytes(self.packet.memory, self.saved.memory, self.packet.size())

    def _begin_packet(self, frame: llvm.Value, length: llvm.Value) -> None:
        port = self.packet.get("port")
        self.packet.clear()
        self.packet.begin(frame, length, port)

    def _copy_fields(self, field_list: llvm.Value, kind: InstanceType) -> None:
        """Copy the fields of a list (its number + 1) from the saved packet, and set the instance type."""
        b, packet = self.b, self.packet
        for number, fields in enumerate(self.program.field_lists):
            refs = [value for value in fields.values if isinstance(value, ir.FieldRef)]
            if refs:
                with b.if_then(b.icmp_unsigned("==", field_list, integer(32, number + 1))):
                    for ref in refs:
                        packet.store(ref, self.saved.load_stored(ref))
        packet.store_standard(Standard.INSTANCE_TYPE, integer(32, kind))

    def _reset_requests(self, truncated_length: llvm.Value) -> None:
        """Reset what was requested for the original, as a copy is a new packet in BMv2."""
        for name in ("clone_session", "resubmit_list", "recirculate_list", "digest"):
            self.packet.set(name, integer(32, 0))
        self.packet.set("truncated_length", truncated_length)

    def _queue(self, queue: PassQueue, run: llvm.Value) -> None:
        queue.push(run)
        self.b.branch(self.next_block)


def work_bytes(packet_bytes: int) -> int:
    return 2 * QUEUE_CAPACITY * (packet_bytes + RUN_BYTES) + MAX_RECIRCULATED_BYTES
