"""Run the parser. An error keeps the headers parsed so far, and the packet continues. BMv2: parser.cpp.

Where BMv2 has no limit, crashes or reads beyond the packet, this module defines: at most `MAX_PARSER_STEPS`
states are visited, a lookahead beyond the end is PacketTooShort, and so is a varbit field of negative length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softswitch import ir
from softswitch.interpreter.expressions import UINT64, ParserError, evaluate, field_at
from softswitch.interpreter.packet import Packet
from softswitch.limits import MAX_PARSER_STEPS
from softswitch.v1model import CoreError


class VerifyFailed(Exception):
    """Ends the parser with the error code of a `verify`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def parse(
    packet: Packet,
    value_sets: Sequence[Sequence[int]],
    execute: Callable[[Packet, ir.Statement], None],
) -> int:
    """Fill the headers from `packet.frame`; return the error code.

    `value_sets` holds the members of each set, encoded by `ir.join_key`; `execute` runs a statement.
    """
    error = _run_states(packet, value_sets, execute)
    packet.observer.parsed(packet, error)
    return error


def _run_states(
    packet: Packet,
    value_sets: Sequence[Sequence[int]],
    execute: Callable[[Packet, ir.Statement], None],
) -> int:
    program = packet.program
    state: int | None = program.start_state
    try:
        for _ in range(MAX_PARSER_STEPS):
            if state is None:
                break
            packet.observer.reached(packet, state)
            for operation in program.parser[state].operations:
                _run_operation(packet, operation, execute)
            state = _select_state(packet, program.parser[state], value_sets)
    except ParserError as parser_error:
        return program.errors[parser_error.error.value]
    except VerifyFailed as verify_failed:
        return verify_failed.code
    return program.errors[CoreError.NO_ERROR.value]


def _run_operation(
    packet: Packet,
    operation: ir.Extract | ir.Advance | ir.Verify | ir.Statement,
    execute: Callable[[Packet, ir.Statement], None],
) -> None:
    match operation:
        case ir.Extract():
            _extract(packet, operation)
        case ir.Advance(bits):
            _advance(packet, evaluate(packet, bits) & UINT64)
        case ir.Verify(condition, error):
            if not evaluate(packet, condition):
                raise VerifyFailed(evaluate(packet, error))
        case _:
            execute(packet, operation)
            packet.observer.executed(packet, operation)


def _advance(packet: Packet, bits: int) -> None:
    if bits % 8:
        raise ParserError(CoreError.PARSER_INVALID_ARGUMENT)
    if len(packet.frame) - packet.position < bits // 8:
        raise ParserError(CoreError.PACKET_TOO_SHORT)
    packet.position += bits // 8
    packet.observer.advanced(packet, packet.position - bits // 8)


def _extract(packet: Packet, operation: ir.Extract) -> None:
    start = packet.position
    if operation.stack is None:
        assert operation.header is not None
        _fill_header(packet, operation.header, operation)
        packet.observer.extracted(packet, operation.header, start)
        return
    stack = packet.program.stacks[operation.stack]
    position = packet.cursors[stack.cursor]
    if position >= len(stack.headers):
        raise ParserError(CoreError.STACK_OUT_OF_BOUNDS)
    _fill_header(packet, stack.headers[position], operation)
    packet.cursors[stack.cursor] += 1
    packet.observer.extracted(packet, stack.headers[position], start)


def _fill_header(packet: Packet, header: int, operation: ir.Extract) -> None:
    # As in BMv2, this includes the varbit field's previous width: 0 unless the header was extracted before.
    previous_bytes = packet.header_bits(header) // 8
    varbit_width = _varbit_width(packet, header, operation)
    if varbit_width % 8:
        raise ParserError(CoreError.PARSER_INVALID_ARGUMENT)
    remaining_bytes = len(packet.frame) - packet.position
    if varbit_width < 0 or remaining_bytes < previous_bytes + varbit_width // 8:
        raise ParserError(CoreError.PACKET_TOO_SHORT)
    if operation.varbit_bits is not None and operation.max_bytes < previous_bytes + varbit_width // 8:
        raise ParserError(CoreError.HEADER_TOO_SHORT)
    packet.varbits[header] = varbit_width
    end = packet.position + packet.header_bits(header) // 8
    packet.unpack_header(header, packet.frame[packet.position : end])
    packet.make_valid(header)
    packet.position = end


def _varbit_width(packet: Packet, header: int, operation: ir.Extract) -> int:
    if operation.varbit_bits is not None:
        return evaluate(packet, operation.varbit_bits)
    declared = packet.program.headers[header]
    position = declared.varbit_position
    return 0 if position is None else declared.fields[position].width


def _select_state(packet: Packet, state: ir.ParserState, value_sets: Sequence[Sequence[int]]) -> int | None:
    parts = [_key_part_bits(packet, part) for part in state.key]
    key = ir.join_key([bits for bits, _ in parts], [width for _, width in parts])
    next_state = next((case.state for case in state.cases if _case_matches(case, key, value_sets)), None)
    packet.observer.selected(packet, key, next_state)
    return next_state


def _case_matches(case: ir.Case, key: int, value_sets: Sequence[Sequence[int]]) -> bool:
    values = [case.value] if case.value_set is None else value_sets[case.value_set]
    return key & case.mask in {value & case.mask for value in values}


def _key_part_bits(packet: Packet, part: ir.KeyPart) -> tuple[int, int]:
    if isinstance(part, ir.Lookahead):
        return evaluate(packet, part), part.width
    ref = field_at(packet, part)
    return (packet.bits(ref) if ref else 0), packet.program.width(part)
