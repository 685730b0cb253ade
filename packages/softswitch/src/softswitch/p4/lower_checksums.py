"""Lowering of the controls that verify and update checksums."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch import ir
from softswitch.p4 import arithmetic, tree
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.extern_arguments import argument_of, lower_data, lower_number, member_name
from softswitch.p4.flow import Label, Part
from softswitch.p4.frames import Frame
from softswitch.p4.lower_calls import applied_object, frame_within
from softswitch.p4.lower_expressions import lower, lower_scalar
from softswitch.p4.lower_statements import lower_locals
from softswitch.p4.operands import Scalar

_FUNCTIONS = (
    "verify_checksum", "update_checksum", "verify_checksum_with_payload", "update_checksum_with_payload"
)  # fmt: skip


def lower_checksums(frame: Frame) -> tuple[ir.Checksum, ...]:
    """Return the checksums of a control; what has to run before them is emitted to the frame."""
    lower_locals(frame)
    assert isinstance(frame.owner.declaration, tree.Control)
    return tuple(_of_block(frame.owner.declaration.body, ir.Constant(1), frame))


def _of_block(block: tree.Statement, condition: ir.Expression, frame: Frame) -> Iterator[ir.Checksum]:
    statements = block.statements if isinstance(block, tree.Block) else [block]
    for statement in statements:
        match statement:
            case tree.CallStatement(call=call) if frame.facts.calls[call].kind in ("apply", "direct"):
                yield from _of_control(call, condition, frame)
            case tree.CallStatement(call=call):
                yield _checksum(call, condition, frame)
            case tree.Conditional():
                holds = lower_scalar(statement.condition, frame)
                yield from _of_block(statement.then, arithmetic.logical("&&", condition, holds), frame)
                if statement.otherwise is not None:
                    inverse = arithmetic.logical("&&", condition, arithmetic.negation(holds))
                    yield from _of_block(statement.otherwise, inverse, frame)
            case tree.Block():
                yield from _of_block(statement, condition, frame)
            case tree.Empty() | tree.Constant():
                pass
            case _:
                raise SourceError(statement, "expected only calls of checksum functions in this control")


def _of_control(call: tree.Call, condition: ir.Expression, frame: Frame) -> Iterator[ir.Checksum]:
    """Yield the checksums of a control that is applied, which has to compute them in the caller's fields."""
    target = frame.facts.calls[call]
    found = applied_object(call, target, frame)
    part = Part(Label(f"return of {found.declaration.name}"))
    inner, copies = frame_within(found, target, part, frame, call)
    if copies:
        raise SourceError(call, "expected arguments that are different fields and headers, got some twice")
    inner.items = frame.items
    lower_locals(inner)
    assert isinstance(found.declaration, tree.Control)
    yield from _of_block(found.declaration.body, condition, inner)


def _checksum(call: tree.Call, condition: ir.Expression, frame: Frame) -> ir.Checksum:
    target = frame.facts.calls[call]
    if target.name not in _FUNCTIONS:
        raise SourceError(call, "expected only calls of checksum functions in this control")
    holds = arithmetic.logical("&&", condition, lower_number(target, "condition", frame))
    algorithm = member_name(target, "algo", frame)
    inputs = lower_data(target, "data", frame, call)
    expression = argument_of(target, "checksum")
    assert expression is not None
    operand = lower(expression, frame)
    if not isinstance(operand, Scalar) or not isinstance(operand.expression, ir.FieldRef):
        raise SourceError(expression, "expected a field as the checksum")
    has_payload = target.name.endswith("payload")
    name = f"$calc_{len(frame.state.calculations)}"
    index = frame.state.add_calculation(name, algorithm, inputs, call, has_payload)
    return ir.Checksum(operand.expression, index, holds)
