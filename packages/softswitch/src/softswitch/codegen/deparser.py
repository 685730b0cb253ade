"""Emit the deparser: valid headers in order, then the payload; to a port, or back to ingress."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch import ir
from softswitch.codegen.loops import OpaqueVariable
from softswitch.codegen.packet import MAX_VALIDITIES
from softswitch.codegen.statements import ActionEmitter
from softswitch.codegen.traffic import Traffic
from softswitch.llvmir import I64, integer, resize


def emit_deparser(actions: ActionEmitter, traffic: Traffic) -> None:
    b, packet, program = actions.b, actions.packet, actions.packet.program
    for statement in program.deparser_body:
        actions.emit_statement(statement)
    cursor = packet.get("cursor")
    payload_bytes = resize(b, b.sub(packet.get("ingress_length"), cursor), 64)
    headers_bytes = sum(program.headers[header].max_bytes for header in program.deparser)
    size = b.add(payload_bytes, integer(64, headers_bytes))
    start, fits = actions.output.reserve(size)
    has_recirculate = program.has(ir.Recirculate)
    if has_recirculate:
        is_recirculated = b.icmp_unsigned("!=", packet.get("recirculate_list"), integer(32, 0))
        recirculated_start, has_room = traffic.reserve_frame(size)
        start, fits = (
            b.select(is_recirculated, recirculated_start, start),
            b.select(is_recirculated, has_room, fits),
        )
    packet.require(fits, traffic.next_packet_block)

    # The verifier would follow each combination of valid headers, so the position is hidden from it.
    position = OpaqueVariable(b, start.type, start, name="position")
    for headers in _chunks(program):
        with b.if_then(packet.has_valid(headers)):
            for header in headers:
                with b.if_then(packet.is_valid(header)):
                    position.set(packet.emit(header, position.get()))
    end = position.get()
    actions.output.write_payload(start, end, payload_bytes)
    length = b.add(b.sub(b.ptrtoint(end, I64), b.ptrtoint(start, I64)), payload_bytes)

    if has_recirculate:
        with b.if_then(is_recirculated):
            traffic.recirculate(start, length)  # ends with a branch to the next packet
    limit = resize(b, packet.get("truncated_length"), 64)
    length = b.select(b.icmp_unsigned("<", length, limit), length, limit)
    actions.output.finish_record(packet.get("egress_port"), length)
    b.branch(traffic.next_packet_block)


def _chunks(program: ir.Program) -> Iterator[tuple[int, ...]]:
    """Split the headers to emit: elements that are neighbours in a stack stay together, at most 8 of them.

    One comparison skips a chunk without a valid header, such as the unused rest of a stack.
    """
    position_of = {
        header: (stack.name, i) for stack in program.stacks for i, header in enumerate(stack.headers)
    }
    chunk: list[int] = []
    for header in program.deparser:
        stack, position = position_of.get(header, ("", 0))
        is_next = chunk and stack and position_of.get(chunk[-1]) == (stack, position - 1)
        if chunk and not (is_next and len(chunk) < MAX_VALIDITIES):
            yield tuple(chunk)
            chunk = []
        chunk.append(header)
    if chunk:
        yield tuple(chunk)
