"""Emit the code that passes packets to and from a port's queue, as records (`memory.waiting`)."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.packet import Packet
from softswitch.codegen.statements import ActionEmitter
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, resize
from softswitch.memory.output import WAITING
from softswitch.memory.waiting import QUEUE_FIELDS, QUEUE_HEAD_BYTES, offset_of
from softswitch.v1model import Standard


def emit_enqueue(actions: ActionEmitter) -> None:
    """Output the packet, or drop it if it does not fit into the output; continue with the next packet."""
    b, packet = actions.b, actions.packet
    payload_bytes = resize(b, b.sub(packet.get("ingress_length"), packet.get("cursor")), 64)
    payload_offset = b.add(packet.size(), integer(64, QUEUE_HEAD_BYTES))
    size = b.add(payload_offset, payload_bytes)
    start, fits = actions.output.reserve(size)
    packet.require(fits, actions.next_packet_block)
    head = {
        "port": packet.get("egress_port"),
        "priority": resize(b, packet.load_standard(Standard.PRIORITY), 32),
        "length": _packet_length(packet),
    }
    for name in QUEUE_FIELDS:  # the depths are 0 until the packet is queued
        b.store(head.get(name, integer(32, 0)), byte_offset(b, start, offset_of(name)), align=4)
    packet.copy_bytes(byte_offset(b, start, QUEUE_HEAD_BYTES), packet.memory, packet.size())
    actions.output.write_payload(start, byte_offset(b, start, payload_offset), payload_bytes)
    actions.output.finish_record(integer(32, WAITING), size)
    b.branch(actions.next_packet_block)


def _packet_length(packet: Packet) -> llvm.Value:
    """Return the packet's current length in bytes; the length that BMv2 tracks can be negative."""
    b, length, limit = packet.b, packet.get("length"), packet.get("truncated_length")
    nonnegative = b.select(b.icmp_signed("<", length, integer(32, 0)), integer(32, 0), length)
    return b.select(b.icmp_unsigned("<", nonnegative, limit), nonnegative, limit)


def emit_dequeue(packet: Packet, record: llvm.Value, now: llvm.Value) -> None:
    b = packet.b
    packet.copy_bytes(packet.memory, byte_offset(b, record, QUEUE_HEAD_BYTES), packet.size())
    payload = byte_offset(b, record, b.add(packet.size(), integer(64, QUEUE_HEAD_BYTES)))
    cursor = b.zext(packet.get("cursor"), I64)
    # The address that a frame with this payload would have: its headers are not read again.
    packet.set("frame", b.gep(payload, [b.neg(cursor)], source_etype=I8))
    queueing_time = b.sub(resize(b, now, 32), resize(b, packet.load_standard(Standard.ENQ_TIMESTAMP), 32))
    packet.store_standard(Standard.DEQ_TIMEDELTA, queueing_time)
    for name in (Standard.ENQ_QDEPTH, Standard.DEQ_QDEPTH):
        depth = b.load(byte_offset(b, record, offset_of(name.value)), typ=I32, align=4)
        packet.store_standard(name, depth)
