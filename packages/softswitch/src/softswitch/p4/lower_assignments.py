"""Lowering of assignments, which evaluate the place before the value."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.effects import has_effects, has_index
from softswitch.p4.frames import Frame
from softswitch.p4.lower_expressions import lower, lower_scalar, ordered, slice_bounds
from softswitch.p4.operand_copies import assign, saved
from softswitch.p4.operands import Operand, Scalar


def lower_assignment(statement: tree.Assignment, frame: Frame) -> None:
    target = statement.target
    wanted = frame.type_of(target)
    expression = frame.facts.combined.get(statement, statement.value)
    is_changeable = has_effects(target, frame) or (has_effects(expression, frame) and has_index(target))
    if not is_changeable:
        assign_to(target, lower(expression, frame, wanted), frame)
        return
    # The place is evaluated once, and before the value.
    target = pinned(target, frame)
    if not statement.operator:
        assign_to(target, lower(expression, frame, wanted), frame)
        return
    left = ordered(target, statement.value, frame, wanted)
    right_type = types.Bits(32) if statement.operator in ("<<", ">>") else wanted
    right = lower_scalar(statement.value, frame, right_type)
    result = arithmetic.binary(statement.operator, left, right, types.representation(wanted), statement)
    assign_to(target, Scalar(result, wanted), frame)


def pinned(target: tree.Expression, frame: Frame) -> tree.Expression:
    """Return an l-value whose indices are variables of their own, which nothing else changes."""
    made: tree.Expression
    match target:
        case tree.Member(base=base):
            made = tree.Member(target.position, pinned(base, frame), target.name)
        case tree.Slice(base=base):
            made = tree.Slice(target.position, pinned(base, frame), target.high, target.low, target.width)
        case tree.Index(base=base, index=index):
            base = pinned(base, frame)
            made = tree.Index(target.position, base, _pinned_index(index, frame))
        case _:
            return target
    frame.facts.types[made] = frame.facts.types[target]
    return made


def _pinned_index(index: tree.Expression, frame: Frame) -> tree.Expression:
    if frame.evaluator.value(index) is not None:
        return index
    value = lower(index, frame)
    assert isinstance(value, Scalar)
    name = tree.Name(index.position, "index")
    variable = tree.Variable(index.position, "index", [], tree.BaseType(index.position, "_"), None)
    frame.facts.references[name], frame.facts.types[name] = variable, frame.facts.types[index]
    frame.bindings[variable] = Scalar(saved(value, frame, index), value.type)
    return name


def assign_to(target: tree.Expression, value: Operand, frame: Frame) -> None:
    """Emit an assignment to the variable that an expression denotes, or to a slice of it."""
    if isinstance(target, tree.Slice):
        _assign_slice(target, value, frame)
        return
    assign(lower(target, frame), value, frame, target)


def _assign_slice(target: tree.Slice, value: Operand, frame: Frame) -> None:
    if not isinstance(value, Scalar):
        raise SourceError(target, "expected bits to assign to a slice")
    base = lower(target.base, frame)
    width = types.representation(frame.type_of(target.base))
    assert isinstance(base, Scalar)
    assert isinstance(width, types.Bits)
    if target.width is not None and frame.evaluator.value(target.low) is None:
        low = lower_scalar(target.low, frame)
        mask = ir.Constant(arithmetic.mask_of(frame.evaluator.integer(target.width)))
        hole = ir.Unary(ir.Op.COMPLEMENT, ir.Binary(ir.Op.SHL, mask, low))
        other_bits = ir.Binary(ir.Op.AND, base.expression, hole)
        combined: ir.Expression = ir.Binary(ir.Op.OR, other_bits, ir.Binary(ir.Op.SHL, value.expression, low))
    else:
        high, low_bit = slice_bounds(target, frame)
        combined = arithmetic.with_slice(base.expression, value.expression, high, low_bit, width.width)
    assign_to(target.base, Scalar(arithmetic.wrapped(combined, width), base.type), frame)
