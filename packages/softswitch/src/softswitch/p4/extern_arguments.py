"""Arguments of calls of externs, by the names of their parameters."""

from __future__ import annotations

from collections.abc import Callable

from softswitch import ir
from softswitch.p4 import tree, types
from softswitch.p4.constants import MemberValue
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.frames import Frame
from softswitch.p4.lower_assignments import assign_to
from softswitch.p4.lower_expressions import lower, lower_scalar
from softswitch.p4.lowering_state import FieldValue
from softswitch.p4.operand_copies import saved
from softswitch.p4.operand_values import flattened
from softswitch.p4.operands import Scalar
from softswitch.p4.scopes import CallTarget


def argument_of(target: CallTarget, name: str) -> tree.Expression | None:
    for parameter, argument in zip(target.parameters, target.arguments, strict=True):
        if parameter.name == name and argument is not None:
            return argument.value
    return None


def parameter_type(target: CallTarget, name: str, frame: Frame) -> types.Type:
    parameter = next(each for each in target.parameters if each.name == name)
    known = {v: types.substitute(t, frame.substitution) for v, t in target.substitution.items()}
    given = types.substitute(frame.facts.declared[parameter], known)
    return types.Bits(32) if given == types.INT else given


def lower_number(target: CallTarget, name: str, frame: Frame) -> ir.Expression:
    expression = argument_of(target, name)
    assert expression is not None
    return lower_scalar(expression, frame, parameter_type(target, name, frame))


def lower_output(
    call: tree.Call, target: CallTarget, frame: Frame, make: Callable[[ir.LValue], ir.Statement]
) -> None:
    """Emit a statement that stores to the variable of the argument `result`, or to a copy of it."""
    expression = argument_of(target, "result")
    if expression is not None and not isinstance(expression, tree.Slice):
        operand = lower(expression, frame)
        if isinstance(operand, Scalar) and isinstance(operand.expression, ir.FieldRef | ir.ElementField):
            frame.emit(make(operand.expression), call.position)
            return
    wanted = parameter_type(target, "result", frame)
    storage = frame.storage.scalar(wanted, "$tmp", call)
    frame.emit(make(storage), call.position)
    if expression is not None:
        assign_to(expression, Scalar(storage, wanted), frame)


def lower_data(target: CallTarget, name: str, frame: Frame, node: tree.Node) -> list[FieldValue]:
    """Return the fields and constants of an argument; what is neither is stored in a field before."""
    expression = argument_of(target, name)
    assert expression is not None
    wanted = parameter_type(target, name, frame)
    operand = lower(expression, frame, None if wanted == types.UNKNOWN else wanted)
    values: list[FieldValue] = []
    for each in flattened(operand, frame, node):
        match each.expression:
            case ir.FieldRef():
                values.append(each.expression)
            case ir.Constant(value):
                kind = types.representation(each.type)
                width = kind.width if isinstance(kind, types.Bits) else 1 if kind == types.BOOL else 32
                values.append(ir.SizedConstant(value & ((1 << width) - 1), width))
            case _:
                values.append(saved(each, frame, node))
    return values


def member_name(target: CallTarget, name: str, frame: Frame) -> str:
    expression = argument_of(target, name)
    value = frame.evaluator.value(expression) if expression is not None else None
    if not isinstance(value, MemberValue):
        position = expression.position if expression is not None else target.parameters[0].position
        raise SourceError(position, f"expected a member of an enum as `{name}`, known when compiling")
    return value.name
