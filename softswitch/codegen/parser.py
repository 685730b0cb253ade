"""The parser: a state is a basic block; an error jumps to the end and keeps what was parsed."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.packet import I32, Packet
from softswitch.codegen.values import integer
from softswitch.codegen.wire import byte_offset, join


def emit_parser(packet: Packet) -> None:
    """Parse; afterwards `packet.cursor` is the first byte not parsed and `parser_error` is set."""
    b, program = packet.b, packet.program
    blocks = [b.append_basic_block(f"parse_{state.name}") for state in program.parser]
    done = b.append_basic_block("parsed")
    failures = {name: _failure(packet, name, done) for name in ("PacketTooShort", "StackOutOfBounds")}
    b.branch(blocks[program.start_state])
    for state, block in zip(program.parser, blocks, strict=True):
        b.position_at_end(block)
        for operation in state.operations:
            if isinstance(operation, ir.Assign):
                width = packet.width(operation.target)
                packet.store(operation.target, packet.arithmetic.modulo(operation.value, width))
            else:
                _emit_extract(packet, operation, failures)
        _emit_select(packet, state, blocks, done)
    b.position_at_end(done)


def _failure(packet: Packet, error: str, done: llvm.Block) -> llvm.Block:
    block = packet.b.append_basic_block(error)
    with packet.b.goto_block(block):
        packet.store_standard("parser_error", integer(32, packet.program.errors[error]))
        packet.b.branch(done)
    return block


def _emit_extract(packet: Packet, operation: ir.Extract, failures: dict[str, llvm.Block]) -> None:
    b, program = packet.b, packet.program
    if operation.stack is not None:
        elements = program.stacks[operation.stack].headers
        index = b.load(packet.next_index[operation.stack], typ=I32)
        _check(b, b.icmp_unsigned("<", index, integer(32, len(elements))), failures["StackOutOfBounds"])
        size = program.headers[elements[0]].bits // 8
    else:
        assert operation.header is not None
        size = program.headers[operation.header].bits // 8
    cursor = b.load(packet.cursor, typ=I32)
    left = b.sub(packet.ingress_length, cursor)
    _check(b, b.icmp_unsigned(">=", left, integer(32, size)), failures["PacketTooShort"])
    address = byte_offset(b, packet.frame, b.zext(cursor, llvm.IntType(64)))
    if operation.stack is not None:
        packet.extract_next(operation.stack, address)
    else:
        assert operation.header is not None
        packet.extract(operation.header, address)
    b.store(b.add(cursor, integer(32, size)), packet.cursor)


def _check(b: llvm.IRBuilder, condition: llvm.Value, failure: llvm.Block) -> None:
    good = b.append_basic_block()
    b.cbranch(condition, good, failure)
    b.position_at_end(good)


def _emit_select(packet: Packet, state: ir.ParserState, blocks: list[llvm.Block], done: llvm.Block) -> None:
    b = packet.b
    bits = sum(-(-packet.width(ref) // 8) * 8 for ref in state.key)
    key = join(b, [(packet.load(ref), -(-packet.width(ref) // 8) * 8) for ref in state.key]) if bits else None
    for case in state.cases:
        target = done if case.state is None else blocks[case.state]
        if key is None or case.mask == 0:
            b.branch(target)
            return
        masked = b.and_(key, integer(bits, case.mask))
        otherwise = b.append_basic_block()
        b.cbranch(b.icmp_unsigned("==", masked, integer(bits, case.value)), target, otherwise)
        b.position_at_end(otherwise)
    b.branch(done)
