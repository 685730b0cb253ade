"""The whole packet function: parser, checksum check, ingress, egress, checksum update, deparser.

    int32 process(void *state, uint32 port, const uint8 *frame, uint32 length,
                  uint64 t_in, uint64 now, uint8 *out, uint32 capacity)

returns the number of frames it wrote to `out`, one after another: uint32 port, uint32 length, bytes, padding
to a multiple of 8. Times are in us since the switch started.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.checksums import emit_update, emit_verify
from softswitch.codegen.controls import emit_control
from softswitch.codegen.layout import Layout
from softswitch.codegen.packet import I32, Packet
from softswitch.codegen.parser import emit_parser
from softswitch.codegen.tables import POINTER
from softswitch.codegen.values import integer, resize
from softswitch.codegen.wire import byte_offset

I64 = llvm.IntType(64)
PROCESS = llvm.FunctionType(I32, [POINTER, I32, POINTER, I32, I64, I64, POINTER, I32])
OUT_HEADER = 8


def build_module(program: ir.Program, layout: Layout) -> llvm.Module:
    """LLVM IR of a program; the only external symbol is `process`."""
    module = llvm.Module("pipeline")
    function = llvm.Function(module, PROCESS, "process")
    for argument, name in zip(
        function.args, ("state", "port", "frame", "length", "t_in", "now", "out", "capacity"), strict=True
    ):
        argument.name = name
    state, port, frame, length, t_in, now, out, capacity = function.args
    for pointer in (state, frame, out):
        pointer.add_attribute("noalias")
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    dropped = function.append_basic_block("dropped")
    with b.goto_block(dropped):
        b.ret(integer(32, 0))

    packet = Packet(b, program, frame, length)
    packet.store_standard("ingress_port", port)
    packet.store_standard("packet_length", length)
    packet.store_standard("ingress_global_timestamp", t_in)
    emit_parser(packet)
    emit_verify(packet)
    emit_control(packet, program.ingress, state, layout)

    egress_port = packet.load_standard("egress_spec")
    _drop_unless(packet, b.icmp_unsigned("==", packet.load_standard("mcast_grp"), integer(16, 0)), dropped)
    _drop_unless(packet, _not_drop_port(packet), dropped)
    packet.store_standard("instance_type", integer(32, 0))
    packet.store_standard("egress_port", egress_port)
    packet.store_standard("egress_spec", integer(9, 0))
    packet.store_standard("egress_global_timestamp", now)
    packet.store_standard("packet_length", b.load(packet.length, typ=I32))
    emit_control(packet, program.egress, state, layout)
    _drop_unless(packet, _not_drop_port(packet), dropped)
    emit_update(packet)
    _emit_deparser(packet, egress_port, out, capacity, dropped)
    return module


def _not_drop_port(packet: Packet) -> llvm.Value:
    return packet.b.icmp_unsigned("!=", packet.load_standard("egress_spec"), integer(9, ir.DROP_PORT))


def _drop_unless(packet: Packet, condition: llvm.Value, dropped: llvm.Block) -> None:
    going_on = packet.b.append_basic_block()
    packet.b.cbranch(condition, going_on, dropped)
    packet.b.position_at_end(going_on)


def _emit_deparser(
    packet: Packet, port: llvm.Value, out: llvm.Value, capacity: llvm.Value, dropped: llvm.Block
) -> None:
    """Write valid headers in order, then what the parser left; a frame that does not fit is dropped."""
    b, program = packet.b, packet.program
    cursor = b.load(packet.cursor, typ=I32)
    payload = b.sub(packet.ingress_length, cursor)
    most = OUT_HEADER + sum(program.headers[header].bits // 8 for header in program.deparser)
    needed = b.add(resize(b, payload, 64), integer(64, most))
    _drop_unless(packet, b.icmp_unsigned("<=", needed, resize(b, capacity, 64)), dropped)

    position = packet.written
    b.store(integer(64, OUT_HEADER), position)
    for header in program.deparser:
        with b.if_then(packet.is_valid(header)):
            at = b.load(position, typ=I64)
            packet.emit(header, byte_offset(b, out, at))
            b.store(b.add(at, integer(64, program.headers[header].bits // 8)), position)
    at = b.load(position, typ=I64)
    memcpy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
    source = byte_offset(b, packet.frame, resize(b, cursor, 64))
    b.call(memcpy, [byte_offset(b, out, at), source, resize(b, payload, 64), integer(1, 0)])
    length = b.sub(b.add(at, resize(b, payload, 64)), integer(64, OUT_HEADER))
    b.store(resize(b, port, 32), out, align=4)
    b.store(resize(b, length, 32), byte_offset(b, out, 4), align=4)
    b.ret(integer(32, 1))
