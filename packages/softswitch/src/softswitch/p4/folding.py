"""Evaluate the constant parts of expressions, as the switch does."""

from __future__ import annotations

import operator
from collections.abc import Callable

from softswitch import ir
from softswitch.p4 import arithmetic

_OPERATIONS: dict[ir.Op, Callable[[int, int], int]] = {
    ir.Op.ADD: operator.add, ir.Op.SUB: operator.sub, ir.Op.MUL: operator.mul, ir.Op.AND: operator.and_,
    ir.Op.OR: operator.or_, ir.Op.XOR: operator.xor, ir.Op.EQ: operator.eq, ir.Op.NE: operator.ne,
    ir.Op.LT: operator.lt, ir.Op.GT: operator.gt, ir.Op.LE: operator.le, ir.Op.GE: operator.ge,
}  # fmt: skip
_OF_NATURAL_NUMBERS: dict[ir.Op, Callable[[int, int], int]] = {
    ir.Op.SHR: operator.rshift, ir.Op.DIV: lambda a, b: a // b if b else 0,
    ir.Op.MOD: lambda a, b: a % b if b else 0,
}  # fmt: skip
_LOGIC = {ir.Op.BOOL_AND: "&&", ir.Op.BOOL_OR: "||"}
_TRUTHS = {ir.Op.EQ, ir.Op.NE, ir.Op.LT, ir.Op.GT, ir.Op.LE, ir.Op.GE, ir.Op.NOT, *_LOGIC}
_MAX_SHIFT = 64


def rewritten(
    expression: ir.Expression, replacement: Callable[[ir.Expression], ir.Expression]
) -> ir.Expression:
    """Return an expression with its innermost parts replaced, and what is constant then as its value.

    The position of a stack's element is not replaced.
    """
    parts = _operands(expression)
    if not parts:
        return replacement(expression)
    made = [rewritten(each, replacement) for each in parts]
    if all(one is other for one, other in zip(made, parts, strict=True)):
        return expression
    match expression:
        case ir.Unary(op):
            return _folded(ir.Unary(op, *made))
        case ir.Cast(fit, _, width):
            return _folded(ir.Cast(fit, made[0], width))
        case ir.Binary(op):
            return _folded(ir.Binary(op, *made))
    return _folded(ir.Ternary(*made))


def _operands(expression: ir.Expression) -> tuple[ir.Expression, ...]:
    match expression:
        case ir.Unary(_, operand) | ir.Cast(_, operand):
            return (operand,)
        case ir.Binary(_, left, right):
            return left, right
        case ir.Ternary(condition, left, right):
            return condition, left, right
    return ()


def _folded(expression: ir.Expression) -> ir.Expression:
    match expression:
        case ir.Unary(ir.Op.NOT, ir.Constant() as operand):
            return arithmetic.negation(operand)
        case ir.Unary(ir.Op.COMPLEMENT, ir.Constant(value)):
            return ir.Constant(~value)
        case ir.Binary(op, left, right) if op in _LOGIC:
            return arithmetic.logical(_LOGIC[op], left, right)
        case ir.Binary(op, ir.Constant(left), ir.Constant(right)):
            if op in _OPERATIONS:
                return ir.Constant(int(_OPERATIONS[op](left, right)))
            if left >= 0 and right >= 0 and op in _OF_NATURAL_NUMBERS:
                return ir.Constant(_OF_NATURAL_NUMBERS[op](left, right))
            if op is ir.Op.SHL and 0 <= right <= _MAX_SHIFT:
                return ir.Constant(left << right)
        case ir.Cast(ir.Fit.WRAP_SIGNED, ir.Constant(value), width):
            half = 1 << (width - 1)
            return ir.Constant((value + half) % (2 * half) - half)
        case ir.Ternary(ir.Constant(condition), left, right):
            return left if condition else right
    return expression


def fits(expression: ir.Expression, width: int, program: ir.Program) -> bool:
    """Return whether a value is a natural number of `width` bits at most."""

    def both(left: ir.Expression, right: ir.Expression) -> bool:
        return fits(left, width, program) and fits(right, width, program)

    match expression:
        case ir.Constant(value):
            return 0 <= value < 1 << width
        case ir.FieldRef() | ir.ElementField():
            found = program.type_of(expression)
            return not found.signed and found.width <= width
        case ir.Parameter(_, bits) | ir.Cast(ir.Fit.SATURATE, _, bits):
            return bits <= width
        case ir.IsValid():
            return True
        case ir.Unary(op) | ir.Binary(op) if op in _TRUTHS:
            return True
        case ir.Binary(ir.Op.AND, left, right):
            return fits(left, width, program) or fits(right, width, program)
        case ir.Binary((ir.Op.OR | ir.Op.XOR), left, right) | ir.Ternary(_, left, right):
            return both(left, right)
        case ir.Binary((ir.Op.SHR | ir.Op.DIV), left, right):
            return both(left, right)
    return False
