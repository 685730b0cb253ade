"""Operands of constants and defaults, the parts of operands, and their comparison."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.constants import MemberValue, Value, wrap
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.frames import Frame
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.unify import fields_of


def constant_operand(value: Value, frame: Frame, given: types.Type, node: tree.Node) -> Operand:
    """Return a value that is known as an operand of a type."""
    base = types.base_of(given)
    match value:
        case bool():
            return Scalar(ir.Constant(int(value)), given)
        case int():
            return Scalar(ir.Constant(wrap(value, given)), given)
        case str():
            return operands.Text(value)
        case MemberValue():
            return Scalar(ir.Constant(code_of(value, frame)), given)
        case list():
            elements = element_types(base, frame, len(value), node)
            pairs = zip(value, elements, strict=False)
            made = {name: constant_operand(each, frame, kind, node) for each, (name, kind) in pairs}
            return operands.Struct(made, given)
        case dict():
            fields = fields_of(base, frame.facts)
            made = {
                name: constant_operand(each, frame, fields.get(name, types.UNKNOWN), node)
                for name, each in value.items()
            }
            return (
                operands.HeaderValue(made, given) if types.is_header(base) else operands.Struct(made, given)
            )
    raise SourceError(node, f"expected a value, got {value!r}")


def element_types(
    given: types.Type, frame: Frame, count: int, node: tree.Node
) -> list[tuple[str, types.Type]]:
    match given:
        case types.Tuple(elements):
            return [(f"f{i}", each) for i, each in enumerate(elements)]
        case types.List(element) | types.Stack(element):
            return [(f"f{i}", element) for i in range(count)]
    if isinstance(given, types.Struct | types.StructValue):
        return list(fields_of(given, frame.facts).items())
    raise SourceError(node, f"expected a struct or a tuple, got {given}")


def code_of(member: MemberValue, frame: Frame) -> int:
    """Return the number by which the switch knows an error or a member of an enum."""
    given = types.base_of(member.type)
    if given == types.ERROR:
        return frame.facts.errors.index(member.name)
    assert isinstance(given, types.Enum)
    return [each.name for each in given.declaration.members].index(member.name)


def default_value(given: types.Type, frame: Frame, node: tree.Node) -> Operand:
    """Return the default value of a type (specification, §7.3): zeros, and invalid headers."""
    base = types.base_of(given)
    match base:
        case types.Struct(kind="header" | "header_union"):
            return operands.HeaderValue(None, given)
        case types.Struct() | types.StructValue():
            fields = fields_of(base, frame.facts)
            return operands.Struct({n: default_value(t, frame, node) for n, t in fields.items()}, given)
        case types.Tuple(elements):
            values = {f"f{i}": default_value(t, frame, node) for i, t in enumerate(elements)}
            return operands.Struct(values, given)
        case types.Stack(element, size):
            return operands.Struct({f"f{i}": default_value(element, frame, node) for i in range(size)}, given)
    return Scalar(ir.Constant(0), given)


def parts_of(operand: Operand, frame: Frame, node: tree.Node) -> list[Operand]:
    """Return the fields of a struct or header, the members of a union, the elements of a stack."""
    match operand:
        case operands.Struct(fields):
            return list(fields.values())
        case operands.Union(members):
            return list(members.values())
        case operands.Stack(elements):
            return list(elements)
        case operands.Header():
            names = fields_of(types.base_of(operand.type), frame.facts)
            return [frame.storage.field_of(operand, name, node) for name in names]
        case operands.HeaderValue(fields):
            if fields is not None:
                return list(fields.values())
            given = fields_of(types.base_of(operand.type), frame.facts)
            return [default_value(each, frame, node) for each in given.values()]
    raise SourceError(node, "expected a value with parts")


def flattened(operand: Operand, frame: Frame, node: tree.Node) -> list[Scalar]:
    """Return the scalars of an operand, in order."""
    if isinstance(operand, Scalar):
        return [operand]
    return [each for part in parts_of(operand, frame, node) for each in flattened(part, frame, node)]


def equality(left: Operand, frame: Frame, right: Operand, node: tree.Node) -> ir.Expression:
    """Return whether two operands are equal, part by part (specification, §8.17)."""
    match left, right:
        case Scalar(), Scalar():
            return arithmetic.binary("==", left.expression, right.expression, types.BOOL, node)
        case ((operands.Header() | operands.HeaderValue()), (operands.Header() | operands.HeaderValue())):
            valid, other = validity(left, frame, node), validity(right, frame, node)
            parts = zip(parts_of(left, frame, node), parts_of(right, frame, node), strict=True)
            same = arithmetic.all_of([valid, other, *(equality(a, frame, b, node) for a, b in parts)])
            both_invalid = arithmetic.logical("&&", arithmetic.negation(valid), arithmetic.negation(other))
            return arithmetic.logical("||", both_invalid, same)
    pairs = list(zip(parts_of(left, frame, node), parts_of(right, frame, node), strict=True))
    return arithmetic.all_of([equality(a, frame, b, node) for a, b in pairs])


def validity(header: Operand, frame: Frame, node: tree.Node) -> ir.Expression:
    """Return whether a header is valid, or any member of a union."""
    match header:
        case operands.HeaderValue(fields):
            return ir.Constant(int(fields is not None))
        case operands.Union(members):
            return arithmetic.any_of([validity(each, frame, node) for each in members.values()])
        case operands.Header(reference) if isinstance(reference, int):
            return ir.IsValid(reference)
        case operands.Header(ir.Element(stack, index)):
            headers = frame.storage.stacks[stack].headers
            return arithmetic.any_of(
                arithmetic.logical("&&", ir.Binary(ir.Op.EQ, index, ir.Constant(i)), ir.IsValid(each))
                for i, each in enumerate(headers)
            )
    raise SourceError(node, "expected a header")


def leaves_of(operand: Operand, frame: Frame) -> set[operands.Leaf]:
    return operands.leaves(operand, frame.storage.is_metadata, frame.storage.stacks)
