"""Emit the whole packet function: parser, checksums, ingress, egress and deparser."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.calculations import emit_update, emit_verify
from softswitch.codegen.controls import emit_control
from softswitch.codegen.deparser import emit_deparser
from softswitch.codegen.output import OutputWriter
from softswitch.codegen.packet import Packet
from softswitch.codegen.parser import emit_parser
from softswitch.codegen.statements import ActionEmitter
from softswitch.codegen.traffic import Traffic, needs_queues
from softswitch.codegen.waiting import emit_dequeue, emit_enqueue
from softswitch.llvmir import I32, I64, integer
from softswitch.memory.layout import Layout
from softswitch.memory.process import ARGUMENTS, DEPARTURE_PORT, PACKET_FUNCTION_NAME, RESULT_KIND, Kind
from softswitch.target import NATIVE, Module, Target
from softswitch.v1model import DROP_PORT, EGRESS_SPEC_BEFORE_EGRESS, PORT_BITS, Standard

MakeOutput = Callable[[Packet, llvm.Value, llvm.Value], OutputWriter]


def build_module(
    program: ir.Program, layout: Layout, priority_queues: int = 1, buffered: bool = False
) -> tuple[llvm.Module, llvm.Type]:
    """Return a program's LLVM IR, and the type of a packet in flight; only `process` has external linkage."""
    module = Module("pipeline", NATIVE)
    return module, emit_process(module, program, layout, priority_queues, buffered=buffered).type


def process_type(target: Target) -> llvm.FunctionType:
    types = {Kind.ADDRESS: target.pointer, Kind.INT32: I32, Kind.UINT32: I32, Kind.UINT64: I64}
    return llvm.FunctionType(types[RESULT_KIND], [types[argument.kind] for argument in ARGUMENTS])


def emit_process(
    module: Module,
    program: ir.Program,
    layout: Layout,
    priority_queues: int = 1,
    make_output: MakeOutput = OutputWriter,
    buffered: bool = False,
) -> Packet:
    """Add a program's packet function to a module; return the packet that it handles.

    A buffered function outputs packets before egress, and is called again with them (`memory.process`).
    """
    target = module.target
    function = llvm.Function(module, process_type(target), PACKET_FUNCTION_NAME)
    for value, (name, kind) in zip(function.args, ARGUMENTS, strict=True):
        value.name = name
        if kind is Kind.ADDRESS:
            value.add_attribute("noalias")
    state, port, frame, length, t_in, now, out, capacity = function.args
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    ingress, egress, next_packet_block = (
        function.append_basic_block(name) for name in ("ingress", "egress", "next")
    )
    after_ingress = function.append_basic_block("wait") if buffered else egress

    # A packet that is copied, or that the target keeps in memory, is one struct (`codegen.storage`).
    in_struct = needs_queues(program) or target.packet_in_memory or buffered
    packet = Packet(b, program, in_struct=in_struct)
    output = make_output(packet, out, capacity)
    actions = ActionEmitter(packet, state, layout, output, now, next_packet_block)
    traffic = Traffic(actions, ingress, after_ingress, priority_queues)
    if in_struct:
        packet.clear()
    if buffered:
        with b.if_then(b.icmp_unsigned("==", port, integer(32, DEPARTURE_PORT))):
            emit_dequeue(packet, frame, now)
            b.branch(egress)
    packet.begin(frame, length, port)
    packet.store_standard(Standard.INGRESS_PORT, port)
    packet.store_standard(Standard.PACKET_LENGTH, length)
    packet.store_standard(Standard.INGRESS_GLOBAL_TIMESTAMP, t_in)
    b.branch(ingress)

    b.position_at_end(ingress)
    traffic.emit_pass_limit()
    emit_parser(actions)
    emit_verify(packet, actions.externs.calculations)
    emit_control(actions, program.ingress)
    traffic.emit_after_ingress()

    if buffered:
        b.position_at_end(after_ingress)
        traffic.emit_pass_limit()
        emit_enqueue(actions)

    b.position_at_end(egress)
    traffic.emit_pass_limit()
    packet.store_standard(Standard.EGRESS_PORT, packet.get("egress_port"))
    packet.store_standard(Standard.EGRESS_SPEC, integer(PORT_BITS, EGRESS_SPEC_BEFORE_EGRESS))
    packet.store_standard(Standard.EGRESS_GLOBAL_TIMESTAMP, target.clock(b, now))
    packet.store_standard(Standard.PACKET_LENGTH, packet.get("length"))
    emit_control(actions, program.egress)
    traffic.emit_after_egress()
    is_forwarded = b.icmp_unsigned(
        "!=", packet.load_standard(Standard.EGRESS_SPEC), integer(PORT_BITS, DROP_PORT)
    )
    packet.require(is_forwarded, next_packet_block)
    emit_update(packet, actions.externs.calculations)
    emit_deparser(actions, traffic)

    b.position_at_end(next_packet_block)
    traffic.emit_next_packet()
    return packet
