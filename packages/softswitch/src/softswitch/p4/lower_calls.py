"""Lowering of calls of functions, actions, controls and parsers: their bodies take the place of the call."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import replace

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.call_arguments import bind_arguments, object_of
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import Label, Leave, ParserCall, Part
from softswitch.p4.frames import Frame, frame_bindings
from softswitch.p4.lower_expressions import lower
from softswitch.p4.lower_externs import lower_function, lower_method
from softswitch.p4.lower_statements import lower_block, lower_locals
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.operand_values import validity
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import CallTarget
from softswitch.p4.value_sets import sub_parser

MAX_CALL_DEPTH = 64


def lower_call(call: tree.Call, frame: Frame, wanted: types.Type | None = None) -> Operand | None:
    target = frame.facts.calls[call]
    if frame.depth > MAX_CALL_DEPTH:
        raise SourceError(call, f"expected at most {MAX_CALL_DEPTH} nested calls")
    match target.kind:
        case "size":
            value = frame.evaluator.value(call)
            assert isinstance(value, int)
            return Scalar(ir.Constant(value), types.INT)
        case "builtin":
            return _builtin(call, target, frame)
        case "table":
            frame.nested.table(call, frame)
            return None
        case "function":
            declaration = target.declaration
            assert isinstance(declaration, tree.Function)
            if declaration.body is None:
                return lower_function(call, target, frame)
            return _function(call, target, declaration, frame)
        case "action":
            _action(call, target, frame)
            return None
        case "apply" | "direct":
            _apply(call, target, frame)
            return None
        case "method":
            found = object_of(target.receiver, frame) if target.receiver is not None else None
            return lower_method(call, target, found, frame)
    raise SourceError(call, "expected a call that the switch can make")


# -- methods of headers and stacks


def _builtin(call: tree.Call, target: CallTarget, frame: Frame) -> Operand | None:
    assert target.receiver is not None
    receiver = lower(target.receiver, frame)
    match target.name:
        case "isValid":
            return Scalar(validity(receiver, frame, call), types.BOOL)
        case "setValid" | "setInvalid":
            if not isinstance(receiver, operands.Header):
                raise SourceError(call, "expected a header that can be made valid")
            made = ir.SetValid if target.name == "setValid" else ir.SetInvalid
            frame.emit(made(receiver.reference), call.position)
            return None
    if not isinstance(receiver, operands.Stack) or not receiver.stacks:
        raise SourceError(call, "expected a header stack")
    [argument] = target.arguments
    assert argument is not None
    assert argument.value is not None
    count = frame.evaluator.integer(argument.value)
    if count < 0:
        raise SourceError(argument, f"expected a number of at least 0, got {count}")
    if count == 0:
        return None
    frame.emit(_shift(receiver, count if target.name == "push_front" else -count), call.position)
    return None


def _shift(stack: operands.Stack, count: int) -> ir.Shift:
    size = len(stack.elements)
    sources = ir.shift_sources(size, count)
    shifted_in = tuple(i for i in range(size) if not 0 <= i - count < size)
    is_of_unions = isinstance(stack.elements[0], operands.Union)
    return ir.Shift(stack.stacks, count, sources, () if is_of_unions else shifted_in)


# -- bodies


def _function(
    call: tree.Call, target: CallTarget, declaration: tree.Function, frame: Frame
) -> Operand | None:
    substitution = frame.resolved(target)
    bindings: ChainMap[tree.Declaration, object] = ChainMap({}, dict(frame.state.elaborator.globals))
    part = Part(Label(f"return of {declaration.name}"))
    inner = frame.called(part, bindings, substitution=substitution, outer=bindings)
    copies = bind_arguments(target, substitution, frame, inner, None, call)
    returned = types.substitute(frame.facts.returns[declaration], substitution)
    assert declaration.body is not None
    statements = declaration.body.statements
    if (
        len(statements) == 1
        and isinstance(statements[0], tree.Return)
        and statements[0].value is not None
        and not copies
    ):
        inner.items = frame.items
        return lower(statements[0].value, inner, returned)
    if returned != types.VOID:
        inner.result = frame.storage.make(returned, "$result", declaration)
    frame.items.append(part)
    lower_block(declaration.body, inner)
    _drop_last_leave(part)
    for copy in copies:
        copy(frame)
    return inner.result


def _action(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    """Lower a direct call of an action."""
    declaration = target.declaration
    assert isinstance(declaration, tree.Action)
    part = Part(Label(f"return of {declaration.name}"))
    outer = frame.control_bindings
    frame = frame.unit(call.position)
    inner = frame.called(part, ChainMap({}, *outer.maps), outer=outer)
    copies = bind_arguments(target, frame.substitution, frame, inner, declaration, call)
    frame.items.append(part)
    lower_block(declaration.body, inner)
    _drop_last_leave(part)
    for copy in copies:
        copy(frame)


def _apply(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    """Lower the application of an instance of a control or of a parser."""
    run_object(applied_object(call, target, frame), target, frame, call)


def applied_object(call: tree.Call, target: CallTarget, frame: Frame) -> CallableObject:
    """Return the instance of a control or of a parser that a call applies."""
    found: CallableObject | ExternObject | None
    if target.kind == "direct":
        declaration = target.declaration
        assert isinstance(declaration, tree.Control | tree.Parser)
        key = (call, frame.owner)
        if key not in frame.state.anonymous:
            path = f"{frame.owner.path}.{declaration.name}"
            made = frame.state.elaborator.callable(declaration, path, frame.resolved(target), {}, call)
            frame.state.anonymous[key] = made
        found = frame.state.anonymous[key]
    else:
        assert target.receiver is not None
        found = object_of(target.receiver, frame)
    if not isinstance(found, CallableObject):
        raise SourceError(call, "expected an instance of a control or a parser")
    return found


def frame_within(
    found: CallableObject, target: CallTarget, part: Part, frame: Frame, node: tree.Node
) -> tuple[Frame, list[Callable[[Frame], None]]]:
    """Return the frame of an instance's body with bound parameters, and what copies results out after it."""
    inner = frame.called(
        part, frame_bindings(found), owner=found, substitution=found.substitution, outer=None
    )
    # The call may name the parameters of the control's type.
    bound = replace(target, declaration=found.declaration, parameters=found.declaration.parameters)
    substitution = {**found.substitution, **frame.resolved(target)}
    return inner, bind_arguments(bound, substitution, frame, inner, None, node)


def run_object(found: CallableObject, target: CallTarget, frame: Frame, node: tree.Node) -> None:
    declaration = found.declaration
    part = Part(Label(f"return of {declaration.name}"))
    inner, copies = frame_within(found, target, part, frame, node)
    frame.items.append(part)
    if isinstance(declaration, tree.Parser):
        part.items.append(ParserCall(sub_parser(found, inner), node.position))
    else:
        control_body(inner)
        _drop_last_leave(part)
    for copy in copies:
        copy(frame)


def control_body(frame: Frame) -> None:
    """Lower the local variables of a control, and what it applies."""
    lower_locals(frame)
    assert isinstance(frame.owner.declaration, tree.Control)
    lower_block(frame.owner.declaration.body, frame)


def _drop_last_leave(part: Part) -> None:
    if part.items and isinstance(part.items[-1], Leave) and part.items[-1].label is part.label:
        part.items.pop()
