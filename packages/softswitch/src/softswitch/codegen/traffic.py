"""Emit the traffic manager: drop, unicast, multicast, clones, resubmit and recirculate.

A program without the last four needs only unicast. In others, packets wait in two queues in the state's
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
from softswitch.memory.words import HALF, LOW_HALF_MASK, pack_halves
from softswitch.target import target_of
from softswitch.v1model import DROP_PORT, PORT_BITS, InstanceType, Standard


def needs_queues(program: ir.Program) -> bool:
    requeuing = (ir.Clone, ir.Resubmit, ir.Recirculate)
    return any(program.has(kind) for kind in requeuing) or program.sets_standard_field(Standard.MCAST_GRP)


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
        self.next_packet_block = actions.next_packet_block
        self.has_queues = needs_queues(self.program)
        if self.has_queues:
            self.saved_packet = Packet(self.b, self.program, in_struct=True)
            base = word(self.b, actions.state, actions.layout.work)
            self.egress_queue = PassQueue(self.packet, base)
            self.ingress_queue = PassQueue(self.packet, byte_offset(self.b, base, self.egress_queue.bytes))
            queues_bytes = self.b.shl(self.egress_queue.bytes, integer(64, 1))
            self.frames = byte_offset(self.b, base, queues_bytes)
            self._frames_used = OpaqueVariable(self.b, I64, name="frames_used")
            self._passes = OpaqueVariable(self.b, I32, name="passes")

    def emit_pass_limit(self) -> None:
        """Emit the count of passes, and a return after MAX_PASSES of them."""
        if self.has_queues:
            target_of(self.b.module).loop_guard(self.b)
            passes = self.b.add(self._passes.get(), integer(32, 1))
            self._passes.set(passes)
            too_many_block = self.b.append_basic_block("passes_ended")
            self.packet.require(self.b.icmp_unsigned("<=", passes, integer(32, MAX_PASSES)), too_many_block)
            with self.b.goto_block(too_many_block):
                self.b.ret(self.actions.output.count())

    def emit_next_packet(self) -> None:
        """Emit a jump to the next pass of a queued packet, and a return if none is queued."""
        b = self.b
        if self.has_queues:
            with b.if_then(self.egress_queue.has_packets()):
                self._dequeue_for_egress()
            with b.if_then(self.ingress_queue.has_packets()):
                self.ingress_queue.restore()
                self.ingress_queue.advance()
                b.branch(self.ingress)
        b.ret(self.actions.output.count())

    def _dequeue_for_egress(self) -> None:
        b = self.b
        self.egress_queue.restore()
        run = self.egress_queue.run()
        with b.if_else(b.icmp_unsigned("==", run, integer(64, 0))) as (single, copies):
            with single:
                self.egress_queue.advance()
            with copies:
                replica_index = b.lshr(run, integer(64, HALF))
                pool = integer(64, self.actions.layout.replication.pool)
                replica = b.load(word(b, self.actions.state, b.add(replica_index, pool)), typ=I64)
                self.packet.set("egress_port", resize(b, b.lshr(replica, integer(64, HALF)), 32))
                self.packet.store_standard(Standard.EGRESS_RID, replica)
                remaining_run = b.add(run, integer(64, pack_halves(1, 0) - 1))  # first + 1, remaining - 1
                self.egress_queue.set_run(remaining_run)
                with b.if_then(
                    b.icmp_unsigned("==", b.and_(remaining_run, integer(64, LOW_HALF_MASK)), integer(64, 0))
                ):
                    self.egress_queue.advance()
        self._enter_egress()

    # -- after ingress

    def emit_after_ingress(self) -> None:
        program = self.program
        if program.has(ir.Clone):
            self._emit_clones(InstanceType.INGRESS_CLONE)
        if program.has(ir.Digest):
            self._emit_digests()
        if program.has(ir.Resubmit):
            self._emit_resubmit()
        if program.sets_standard_field(Standard.MCAST_GRP):
            self._emit_multicast()
        self._emit_unicast()

    def _emit_digests(self) -> None:
        b = self.b
        requested = self.packet.get("digest")
        for number in range(len(self.program.digests)):
            with b.if_then(b.icmp_unsigned("==", requested, integer(32, number + 1))):
                self.actions.output.write_digest(number)

    def _emit_resubmit(self) -> None:
        b, packet = self.b, self.packet
        field_list = packet.get("resubmit_list")
        with b.if_then(b.icmp_unsigned("!=", field_list, integer(32, 0))):
            self._save_packet()
            self._begin_packet(packet.get("frame"), packet.get("ingress_length"))
            self._copy_fields(field_list, InstanceType.RESUBMITTED)
            packet.store_standard(Standard.PACKET_LENGTH, packet.get("ingress_length"))
            self._enqueue(self.ingress_queue, integer(64, 0))

    def _emit_multicast(self) -> None:
        b, packet, layout = self.b, self.packet, self.actions.layout.replication
        group = resize(b, packet.load_standard(Standard.MCAST_GRP), 64)
        with b.if_then(b.icmp_unsigned("!=", group, integer(64, 0))):
            packet.store_standard(Standard.INSTANCE_TYPE, integer(32, InstanceType.REPLICATED))
            self._reset_requests(integer(32, NOT_TRUNCATED))
            run_offset = b.add(group, integer(64, layout.multicast))
            run = b.load(word(b, self.actions.state, run_offset), typ=I64)
            packet.require(self._has_copies(run), self.next_packet_block)
            self._enqueue(self.egress_queue, run)

    def _emit_unicast(self) -> None:
        b, packet = self.b, self.packet
        port = packet.load_standard(Standard.EGRESS_SPEC)
        packet.require(b.icmp_unsigned("!=", port, integer(PORT_BITS, DROP_PORT)), self.next_packet_block)
        packet.store_standard(Standard.INSTANCE_TYPE, integer(32, InstanceType.NORMAL))
        packet.set("egress_port", resize(b, port, 32))
        if self.has_queues:
            with b.if_then(self.egress_queue.has_packets()):
                self._enqueue(self.egress_queue, integer(64, 0))
        self._enter_egress()

    def _enter_egress(self) -> None:
        """Drop a packet whose priority has no queue, as BMv2 does, and branch to egress."""
        b, packet = self.b, self.packet
        if self.program.sets_standard_field(Standard.PRIORITY):
            priority = b.zext(packet.load_standard(Standard.PRIORITY), I32)
            has_queue = b.icmp_unsigned("<", priority, integer(32, self.priority_queues))
            packet.require(has_queue, self.next_packet_block)
        packet.store_standard(Standard.ENQ_TIMESTAMP, self.actions.now)
        b.branch(self.egress)

    # -- after egress

    def emit_after_egress(self) -> None:
        if self.program.has(ir.Clone):
            self._emit_clones(InstanceType.EGRESS_CLONE)

    def reserve_frame(self, size: llvm.Value) -> tuple[llvm.Value, llvm.Value]:
        """Return the address for a recirculated frame, and an `i1`: whether it fits."""
        b = self.b
        used_bytes = self._frames_used.get()
        fits = b.icmp_unsigned("<=", b.add(used_bytes, size), integer(64, MAX_RECIRCULATED_BYTES))
        return byte_offset(b, self.frames, used_bytes), fits

    def recirculate(self, frame: llvm.Value, length: llvm.Value) -> None:
        b, packet = self.b, self.packet
        self._frames_used.set(b.add(self._frames_used.get(), length))
        field_list = packet.get("recirculate_list")
        self._save_packet()
        self._begin_packet(frame, resize(b, length, 32))
        self._copy_fields(field_list, InstanceType.RECIRCULATED)
        packet.store_standard(Standard.PACKET_LENGTH, packet.get("ingress_length"))
        self._enqueue(self.ingress_queue, integer(64, 0))

    # -- clones

    def _emit_clones(self, kind: InstanceType) -> None:
        b, packet, layout = self.b, self.packet, self.actions.layout.replication
        session = packet.get("clone_session")
        with b.if_then(b.icmp_unsigned("!=", session, integer(32, 0))):
            number = b.zext(b.sub(session, integer(32, 1)), I64)
            session_offset = b.add(b.mul(number, integer(64, SESSION_WORDS)), integer(64, layout.sessions))
            run = b.load(word(b, self.actions.state, session_offset), typ=I64)
            length = b.load(word(b, self.actions.state, b.add(session_offset, integer(64, 1))), typ=I64)
            with b.if_then(self._has_copies(run)):
                field_list = b.add(packet.get("clone_list"), integer(32, 1))
                self._save_packet()
                if kind is InstanceType.INGRESS_CLONE:
                    self._emit_reparse()
                packet.clear_metadata()
                self._copy_fields(field_list, kind)
                is_whole = b.icmp_unsigned("==", length, integer(64, 0))
                self._reset_requests(b.select(is_whole, integer(32, NOT_TRUNCATED), resize(b, length, 32)))
                self.egress_queue.push(run)
                self._restore_packet()
            packet.set("clone_session", integer(32, 0))

    def _emit_reparse(self) -> None:
        """Parse the arrived frame a second time, since no copy of the parsed packet exists."""
        packet = self.packet
        self._begin_packet(packet.get("frame"), packet.get("ingress_length"))
        packet.store_standard(Standard.INGRESS_PORT, packet.get("port"))
        emit_parser(self.actions)

    def _has_copies(self, run: llvm.Value) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.b.and_(run, integer(64, LOW_HALF_MASK)), integer(64, 0))

    # -- copies of the packet

    def _save_packet(self) -> None:
        self.packet.copy_bytes(self.saved_packet.memory, self.packet.memory, self.packet.size())

    def _restore_packet(self) -> None:
        self.packet.copy_bytes(self.packet.memory, self.saved_packet.memory, self.packet.size())

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
                        packet.store(ref, self.saved_packet.load_stored(ref))
        packet.store_standard(Standard.INSTANCE_TYPE, integer(32, kind))

    def _reset_requests(self, truncated_length: llvm.Value) -> None:
        """Reset what was requested for the original, as a copy is a new packet in BMv2."""
        for name in ("clone_session", "resubmit_list", "recirculate_list", "digest"):
            self.packet.set(name, integer(32, 0))
        self.packet.set("truncated_length", truncated_length)

    def _enqueue(self, queue: PassQueue, run: llvm.Value) -> None:
        queue.push(run)
        self.b.branch(self.next_packet_block)


def work_bytes(packet_bytes: int) -> int:
    return 2 * QUEUE_CAPACITY * (packet_bytes + RUN_BYTES) + MAX_RECIRCULATED_BYTES
