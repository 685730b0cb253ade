"""Operands of a program that is lowered: values, and the storage of variables and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from softswitch import ir
from softswitch.p4 import types


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a bool, an enum, an error, or a varbit; it can be assigned to if it is a field."""

    expression: ir.Expression
    type: types.Type

    @property
    def is_constant(self) -> bool:
        return isinstance(self.expression, ir.Constant)


@dataclass(frozen=True, slots=True)
class Header:
    """A header, by its index or by its position in a stack."""

    reference: ir.HeaderRef
    type: types.Type


@dataclass(frozen=True, slots=True)
class Union:
    """A header union; `index` is its position in `Program.unions`."""

    members: Mapping[str, Header]
    type: types.Type
    index: int


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack, or a stack of unions, which is one stack for each member."""

    elements: tuple[Header | Union | Struct | Scalar, ...]
    stacks: tuple[int, ...]
    type: types.Stack


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct or a tuple, the fields of which may also be mere values."""

    fields: Mapping[str, Operand]
    type: types.Type


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A valid header with these fields as a value, or an invalid one without."""

    fields: Mapping[str, Operand] | None
    type: types.Type


@dataclass(frozen=True, slots=True)
class Text:
    """A string, as an argument of an extern."""

    text: str


Operand = Scalar | Header | Union | Stack | Struct | HeaderValue | Text
Leaf = tuple[int, int]
"""A header and a field of it, with field -1 for the whole header."""


def leaves(operand: Operand, is_metadata: Callable[[int], bool], stacks: list[ir.Stack]) -> set[Leaf]:
    """Return what an operand reads or is; a header counts as a whole."""
    found: set[Leaf] = set()
    for part in _parts(operand):
        if isinstance(part, ir.FieldRef):
            found.add((part.header, part.field if is_metadata(part.header) else -1))
        elif isinstance(part, ir.IsValid):
            found.add((part.header, -1))
        elif isinstance(part, ir.Element):
            found |= {(header, -1) for header in stacks[part.stack].headers}
        elif isinstance(part, int):
            found.add((part, -1))
    return found


def _parts(operand: object) -> Iterator[object]:
    match operand:
        case Scalar(expression):
            yield from expression_parts(expression)
        case Header(reference):
            yield reference
            if isinstance(reference, ir.Element):
                yield from expression_parts(reference.index)
        case Union(members):
            for member in members.values():
                yield from _parts(member)
        case Stack(elements):
            for element in elements:
                yield from _parts(element)
        case Struct(fields) | HeaderValue(fields):
            for each in (fields or {}).values():
                yield from _parts(each)


def expression_parts(expression: ir.Expression) -> Iterator[object]:
    """Yield an expression and the expressions within it."""
    stack: list[ir.Expression] = [expression]
    while stack:
        each = stack.pop()
        yield each
        match each:
            case ir.Unary(_, operand) | ir.Cast(_, operand):
                stack.append(operand)
            case ir.Binary(_, left, right):
                stack += [left, right]
            case ir.Ternary(condition, left, right):
                stack += [condition, left, right]
            case ir.ElementField(element):
                yield element
                stack.append(element.index)


def is_variable(operand: Operand) -> bool:
    """Return whether an operand is storage at a place that is known when the program is compiled."""
    match operand:
        case Scalar(expression):
            return isinstance(expression, ir.FieldRef)
        case Header(reference):
            return isinstance(reference, int)
        case Struct(fields):
            return all(map(is_variable, fields.values()))
        case Union() | Stack():
            return True
    return False
