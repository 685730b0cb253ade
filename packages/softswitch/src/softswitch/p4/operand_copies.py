"""Assignments of operands to variables, and copies of them."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.frames import Frame
from softswitch.p4.operand_values import leaves_of, parts_of
from softswitch.p4.operands import Operand, Scalar


def saved(operand: Scalar, frame: Frame, node: tree.Node) -> ir.FieldRef:
    """Return a new field that holds the value."""
    field = frame.storage.scalar(operand.type, "$tmp", node)
    frame.emit(ir.Assign(field, operand.expression), node.position)
    return field


def stable_copy(operand: Operand, frame: Frame, node: tree.Node) -> Operand:
    """Return an operand that stays what it is now, a copy unless it is a constant."""
    if isinstance(operand, Scalar):
        return operand if operand.is_constant else Scalar(saved(operand, frame, node), operand.type)
    if isinstance(operand, operands.Text):
        return operand
    copy = frame.storage.make(operand.type, "$tmp", node)
    assign(copy, operand, frame, node)
    return copy


def invalidate(operand: Operand, frame: Frame, node: tree.Node) -> None:
    """Emit that all headers of a variable are invalid, as they are where it is declared."""
    match operand:
        case operands.Header(reference):
            frame.emit(ir.SetInvalid(reference), node.position)
        case operands.Struct(fields):
            for each in fields.values():
                invalidate(each, frame, node)
        case operands.Union(members):
            for each in members.values():
                invalidate(each, frame, node)
        case operands.Stack(elements):
            for each in elements:
                invalidate(each, frame, node)


def assign(target: Operand, value: Operand, frame: Frame, node: tree.Node) -> None:
    if target == value:
        return
    match target, value:
        case Scalar(), Scalar():
            _assign_scalar(target, value, frame, node)
        case operands.Header(reference), operands.Header(source):
            frame.emit(ir.AssignHeader(reference, source), node.position)
        case operands.Header(reference), operands.HeaderValue(None):
            frame.emit(ir.SetInvalid(reference), node.position)
        case operands.Header(), operands.HeaderValue() | operands.Struct():
            _assign_fields(target, value, frame, node)
        case operands.Union(members), operands.HeaderValue(None):
            for member in members.values():
                assign(member, value, frame, node)
        case operands.Union(members), operands.Union(others):
            for member, other in zip(members.values(), others.values(), strict=True):
                assign(member, other, frame, node)
        case operands.Stack(), operands.Stack() if target.stacks and value.stacks:
            _assign_stack(target, value, frame, node)
        case ((operands.Struct() | operands.Stack()), (operands.Struct() | operands.Stack())):
            _assign_parts(target, value, frame, node)
        case _:
            raise SourceError(node, "expected a variable, and a value of its type")


def _assign_scalar(target: Scalar, value: Scalar, frame: Frame, node: tree.Node) -> None:
    place, expression = target.expression, value.expression
    if not isinstance(place, ir.FieldRef | ir.ElementField):
        raise SourceError(node, "expected a variable or a field to assign to")
    given = types.representation(target.type)
    if isinstance(given, types.Varbit):
        if isinstance(expression, ir.Constant):
            raise SourceError(node, "assignment of a constant to a varbit is not supported by softswitch")
        if not isinstance(place, ir.FieldRef) or not isinstance(expression, ir.FieldRef):
            raise SourceError(node, "assignment of a varbit field of a stack's element is not supported")
        frame.emit(ir.AssignVarbit(place, expression), node.position)
        return
    match expression:
        case ir.Binary(ir.Op.AND, inner, ir.Constant(mask)) if (
            isinstance(given, types.Bits) and not given.signed
        ):
            # A field keeps the bits of its width of what is stored in it.
            if mask == arithmetic.mask_of(given.width) and not isinstance(inner, ir.Ternary):
                expression = inner
    frame.emit(ir.Assign(place, expression), node.position)


def _assign_fields(
    header: operands.Header, value: operands.HeaderValue | operands.Struct, frame: Frame, node: tree.Node
) -> None:
    """Assign a list of values to a header, which makes it valid."""
    values = _unaliased(header, parts_of(value, frame, node), frame, node)
    if isinstance(header.reference, ir.Element) and not isinstance(header.reference.index, ir.Constant):
        index = Scalar(header.reference.index, types.Bits(32))
        if leaves_of(index, frame) & leaves_of(header, frame):
            fixed = ir.Element(header.reference.stack, saved(index, frame, node))
            header = operands.Header(fixed, header.type)
    frame.emit(ir.SetValid(header.reference), node.position)
    for part, each in zip(parts_of(header, frame, node), values, strict=True):
        assign(part, each, frame, node)


def _assign_parts(
    target: operands.Struct | operands.Stack, value: operands.Struct | operands.Stack, frame: Frame,
    node: tree.Node,
) -> None:  # fmt: skip
    values = _unaliased(target, parts_of(value, frame, node), frame, node)
    for part, each in zip(parts_of(target, frame, node), values, strict=True):
        assign(part, each, frame, node)


def _unaliased(target: Operand, values: list[Operand], frame: Frame, node: tree.Node) -> list[Operand]:
    """Return values that do not change while the target is assigned part by part."""
    written = leaves_of(target, frame)
    if len(values) < 2 and not isinstance(target, operands.Header):
        return values
    return [stable_copy(each, frame, node) if written & leaves_of(each, frame) else each for each in values]


def _assign_stack(target: operands.Stack, value: operands.Stack, frame: Frame, node: tree.Node) -> None:
    stacks = frame.storage.stacks
    frame.emit(ir.CopyCursor(stacks[target.stacks[0]].cursor, stacks[value.stacks[0]].cursor), node.position)
    for left, right in zip(target.elements, value.elements, strict=True):
        assign(left, right, frame, node)
