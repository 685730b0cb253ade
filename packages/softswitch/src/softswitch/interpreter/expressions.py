"""Evaluate expressions on integers of unlimited width. BMv2: expressions.cpp, data.h.

Where BMv2 crashes or depends on memory contents, this module defines: division by 0 yields 0, `/` and `%`
round down, a shift by `MAX_EXPRESSION_BITS` or more (or by a negative amount) shifts out all bits, and an
element outside a stack reads as 0 and ignores stores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from softswitch import ir
from softswitch.interpreter.packet import Packet
from softswitch.limits import MAX_EXPRESSION_BITS
from softswitch.v1model import CoreError

UINT32 = (1 << 32) - 1
UINT64 = (1 << 64) - 1


class ParserError(Exception):
    """Ends the parser with an error of the core library."""

    def __init__(self, error: CoreError) -> None:
        super().__init__(error.value)
        self.error = error


def _divide(left: int, right: int) -> int:
    return left // right if right else 0


def _remainder(left: int, right: int) -> int:
    return left % right if right else 0


def _shift_left(value: int, amount: int) -> int:
    return value << amount if 0 <= amount < MAX_EXPRESSION_BITS else 0


def _shift_right(value: int, amount: int) -> int:
    return value >> (amount if amount >= 0 else MAX_EXPRESSION_BITS)


_BINARY_OPERATIONS: dict[ir.Op, Callable[[int, int], int]] = {
    ir.Op.ADD: operator.add,
    ir.Op.SUB: operator.sub,
    ir.Op.MUL: operator.mul,
    ir.Op.DIV: _divide,
    ir.Op.MOD: _remainder,
    ir.Op.SHL: _shift_left,
    ir.Op.SHR: _shift_right,
    ir.Op.AND: operator.and_,
    ir.Op.OR: operator.or_,
    ir.Op.XOR: operator.xor,
    ir.Op.EQ: operator.eq,
    ir.Op.NE: operator.ne,
    ir.Op.LT: operator.lt,
    ir.Op.GT: operator.gt,
    ir.Op.LE: operator.le,
    ir.Op.GE: operator.ge,
}


def evaluate(packet: Packet, expression: ir.Expression) -> int:
    """Return the value of an expression; booleans are 0 and 1."""
    # The most frequent kinds come first; a pattern of `match` would take twice as long.
    if isinstance(expression, ir.FieldRef):
        return packet.get(expression)
    if isinstance(expression, ir.Constant):
        return expression.value
    if isinstance(expression, ir.Binary):
        return _evaluate_binary(packet, expression)
    match expression:
        case ir.ElementField():
            ref = field_at(packet, expression)
            return packet.get(ref) if ref else 0
        case ir.IsValid(header):
            return int(packet.valid[header])
        case ir.LastIndex(stack):
            # In an empty stack the index wraps, as BMv2's unsigned 64-bit integer does.
            return (packet.cursors[packet.program.stacks[stack].cursor] - 1) & UINT64
        case ir.Parameter(index, _):
            return packet.args[index]
        case ir.Lookahead(offset, width):
            return _look_ahead(packet, offset, width)
        case ir.Unary(ir.Op.NOT, operand):
            return int(not evaluate(packet, operand))
        case ir.Unary(_, operand):
            return ~evaluate(packet, operand)
        case ir.Cast(fit, operand, width):
            return _fit_value(fit, evaluate(packet, operand), width)
        case ir.Ternary(condition, left, right):
            return evaluate(packet, left if evaluate(packet, condition) else right)


def _evaluate_binary(packet: Packet, expression: ir.Binary) -> int:
    left_value = evaluate(packet, expression.left)
    operation = _BINARY_OPERATIONS.get(expression.op)
    if operation is not None:
        return int(operation(left_value, evaluate(packet, expression.right)))
    if expression.op is ir.Op.BOOL_AND:
        return int(bool(left_value) and bool(evaluate(packet, expression.right)))
    assert expression.op is ir.Op.BOOL_OR
    return int(bool(left_value) or bool(evaluate(packet, expression.right)))


def _fit_value(fit: ir.Fit, value: int, width: int) -> int:
    half_range = 1 << (width - 1)
    match fit:
        case ir.Fit.WRAP_SIGNED:
            return (value + half_range) % (2 * half_range) - half_range
        case ir.Fit.SATURATE_SIGNED:
            return min(max(value, -half_range), half_range - 1)
        case ir.Fit.SATURATE:
            return min(max(value, 0), 2 * half_range - 1)


def _look_ahead(packet: Packet, offset: int, width: int) -> int:
    remaining_bytes = packet.frame[packet.position :]
    if offset + width > 8 * len(remaining_bytes):
        raise ParserError(CoreError.PACKET_TOO_SHORT)
    following_bits = 8 * len(remaining_bytes) - offset - width
    return int.from_bytes(remaining_bytes, "big") >> following_bits & ((1 << width) - 1)


def header_at(packet: Packet, ref: ir.HeaderRef) -> int | None:
    if isinstance(ref, int):
        return ref
    elements = packet.program.stacks[ref.stack].headers
    index = evaluate(packet, ref.index) & UINT64
    return elements[index] if index < len(elements) else None


def field_at(packet: Packet, target: ir.LValue) -> ir.FieldRef | None:
    if isinstance(target, ir.FieldRef):
        return target
    header = header_at(packet, target.element)
    return None if header is None else ir.FieldRef(header, target.field)


def assign(packet: Packet, target: ir.LValue, value: int) -> None:
    """Store a value modulo 2^width of its target."""
    ref = field_at(packet, target)
    if ref is not None:
        packet.set(ref, value)
