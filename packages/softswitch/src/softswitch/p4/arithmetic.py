"""Arithmetic of P4 types by expressions on integers of unlimited width, which wrap explicitly."""

from __future__ import annotations

from collections.abc import Iterable

from softswitch import ir
from softswitch.p4 import tree, types
from softswitch.p4.constants import COMPARISONS, compute, wrap

_OPERATORS = {op.value: op for op in ir.Op}
_NAMES = {"&&": ir.Op.BOOL_AND, "||": ir.Op.BOOL_OR, "|+|": ir.Op.ADD, "|-|": ir.Op.SUB}
_OPPOSITES = {
    ir.Op.EQ: ir.Op.NE, ir.Op.NE: ir.Op.EQ, ir.Op.LT: ir.Op.GE, ir.Op.GE: ir.Op.LT, ir.Op.GT: ir.Op.LE,
    ir.Op.LE: ir.Op.GT,
}  # fmt: skip
_STAY_IN_RANGE = ("&", "|", "^", ">>", "/", "%")


def mask_of(width: int) -> int:
    return (1 << width) - 1


def wrapped(expression: ir.Expression, given: types.Type) -> ir.Expression:
    """Return an integer reduced to the range of a type."""
    given = types.representation(given)
    if not isinstance(given, types.Bits):
        return expression
    if isinstance(expression, ir.Constant):
        return ir.Constant(wrap(expression.value, given))
    if given.signed:
        return ir.Cast(ir.Fit.WRAP_SIGNED, expression, given.width)
    return ir.Binary(ir.Op.AND, expression, ir.Constant(mask_of(given.width)))


def unary(operator: str, operand: ir.Expression, given: types.Type) -> ir.Expression:
    if operator == "+":
        return operand
    if operator == "!":
        return negation(operand)
    if isinstance(operand, ir.Constant):
        value = -operand.value if operator == "-" else ~operand.value
        return ir.Constant(wrap(value, given))
    if operator == "-":
        return wrapped(ir.Binary(ir.Op.SUB, ir.Constant(0), operand), given)
    return wrapped(ir.Unary(ir.Op.COMPLEMENT, operand), given)


def negation(operand: ir.Expression) -> ir.Expression:
    match operand:
        case ir.Constant(value):
            return ir.Constant(int(not value))
        case ir.Unary(ir.Op.NOT, inner):
            return inner
        case ir.Binary(op, left, right) if op in _OPPOSITES:
            return ir.Binary(_OPPOSITES[op], left, right)
    return ir.Unary(ir.Op.NOT, operand)


def binary(
    operator: str, left: ir.Expression, right: ir.Expression, given: types.Type, node: tree.Node
) -> ir.Expression:
    """Return what an operator makes of two numbers of the type `given`, or what a comparison does."""
    if operator in ("&&", "||"):
        return logical(operator, left, right)
    if isinstance(left, ir.Constant) and isinstance(right, ir.Constant):
        if operator in ("==", "!="):
            return ir.Constant(int((left.value == right.value) == (operator == "==")))
        if operator in COMPARISONS:
            return ir.Constant(int(COMPARISONS[operator](left.value, right.value)))
        return ir.Constant(compute(operator, left.value, right.value, given, node))
    if operator in ("|+|", "|-|"):
        assert isinstance(given, types.Bits)
        fit = ir.Fit.SATURATE_SIGNED if given.signed else ir.Fit.SATURATE
        return ir.Cast(fit, ir.Binary(_NAMES[operator], left, right), given.width)
    if operator in ("<<", ">>") and isinstance(right, ir.Constant) and isinstance(given, types.Bits):
        if right.value == 0:
            return left
        if right.value >= given.width and not (given.signed and operator == ">>"):
            return ir.Constant(0)
    result = ir.Binary(_OPERATORS[operator], left, right)
    if operator in COMPARISONS or operator in ("==", "!=") or operator in _STAY_IN_RANGE:
        return result
    return wrapped(result, given)


def logical(operator: str, left: ir.Expression, right: ir.Expression) -> ir.Expression:
    decisive = int(operator == "||")
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ir.Constant):
            return ir.Constant(decisive) if bool(one.value) == bool(decisive) else other
    return ir.Binary(_NAMES[operator], left, right)


def concatenation(
    left: ir.Expression, right: ir.Expression, left_type: types.Bits, right_type: types.Bits
) -> ir.Expression:
    if isinstance(left, ir.Constant) and isinstance(right, ir.Constant):
        value = left.value << right_type.width | (right.value & mask_of(right_type.width))
        return ir.Constant(wrap(value, types.Bits(left_type.width + right_type.width, left_type.signed)))
    low = right
    if right_type.signed:
        low = ir.Binary(ir.Op.AND, right, ir.Constant(mask_of(right_type.width)))
    if isinstance(left, ir.Constant) and left.value == 0:
        return low
    return ir.Binary(ir.Op.OR, ir.Binary(ir.Op.SHL, left, ir.Constant(right_type.width)), low)


def converted(expression: ir.Expression, found: types.Type, wanted: types.Type) -> ir.Expression:
    """Return a scalar converted by a cast."""
    source, target = types.representation(found), types.representation(wanted)
    if source == target or target == types.INT:
        return expression
    if target == types.BOOL:
        if isinstance(expression, ir.Constant):
            return ir.Constant(int(expression.value != 0))
        return ir.Binary(ir.Op.NE, expression, ir.Constant(0))
    if not isinstance(target, types.Bits) or source == types.BOOL:
        return expression
    if isinstance(expression, ir.Constant) or not isinstance(source, types.Bits):
        return wrapped(expression, target)
    if source.signed and not target.signed:
        return wrapped(expression, target)
    is_wider = target.width > source.width or (
        target.width == source.width and target.signed == source.signed
    )
    return expression if is_wider else wrapped(expression, target)


def slice_of(expression: ir.Expression, high: int, low: int) -> ir.Expression:
    """Return bits `high` to `low` of a number."""
    if isinstance(expression, ir.Constant):
        return ir.Constant(expression.value >> low & mask_of(high - low + 1))
    shifted = ir.Binary(ir.Op.SHR, expression, ir.Constant(low)) if low else expression
    return ir.Binary(ir.Op.AND, shifted, ir.Constant(mask_of(high - low + 1)))


def with_slice(whole: ir.Expression, part: ir.Expression, high: int, low: int, width: int) -> ir.Expression:
    """Return a number whose bits `high` to `low` are those of `part`."""
    hole = mask_of(width) & ~(mask_of(high - low + 1) << low)
    other_bits = ir.Binary(ir.Op.AND, whole, ir.Constant(hole))
    if isinstance(part, ir.Constant):
        moved: ir.Expression = ir.Constant((part.value & mask_of(high - low + 1)) << low)
    else:
        moved = ir.Binary(ir.Op.SHL, part, ir.Constant(low)) if low else part
    return ir.Binary(ir.Op.OR, other_bits, moved)


def all_of(conditions: Iterable[ir.Expression]) -> ir.Expression:
    found: ir.Expression = ir.Constant(1)
    for each in conditions:
        found = logical("&&", found, each)
    return found


def any_of(conditions: Iterable[ir.Expression]) -> ir.Expression:
    found: ir.Expression = ir.Constant(0)
    for each in conditions:
        found = logical("||", found, each)
    return found
