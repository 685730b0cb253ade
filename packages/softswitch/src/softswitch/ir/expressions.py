"""Expressions on integers of unlimited width, as in BMv2; p4c writes each wrap as a mask or a cast."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer literal; booleans are 0 and 1."""

    value: int


@dataclass(frozen=True, slots=True)
class FieldRef:
    header: int
    field: int


@dataclass(frozen=True, slots=True)
class Element:
    stack: int
    index: Expression


@dataclass(frozen=True, slots=True)
class ElementField:
    """A field of a stack's element. Outside the stack it reads as 0, and stores to it do nothing."""

    element: Element
    field: int


@dataclass(frozen=True, slots=True)
class LastIndex:
    """Position of a stack's last element, -1 modulo 2^64 if the stack is empty (BMv2 `last_stack_index`)."""

    stack: int


@dataclass(frozen=True, slots=True)
class IsValid:
    """Validity of a header, 0 or 1 (BMv2's hidden field `$valid$`)."""

    header: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """Argument number `index` of the running action (BMv2 `runtime_data`)."""

    index: int
    width: int


@dataclass(frozen=True, slots=True)
class Lookahead:
    """`width` bits of the packet, starting `offset` bits after the parser's position (parser only)."""

    offset: int
    width: int


class Op(Enum):
    """Operators; the value is BMv2's spelling."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    MOD = "%"
    SHL = "<<"
    SHR = ">>"
    AND = "&"
    OR = "|"
    XOR = "^"
    EQ = "=="
    NE = "!="
    LT = "<"
    GT = ">"
    LE = "<="
    GE = ">="
    BOOL_AND = "and"
    BOOL_OR = "or"
    COMPLEMENT = "~"
    NOT = "not"

    __hash__ = object.__hash__  # that of `Enum` is a function in Python


@dataclass(frozen=True, slots=True)
class Unary:
    op: Op
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation; comparisons and logic yield 0 or 1, and division by 0 yields 0."""

    op: Op
    left: Expression
    right: Expression


class Fit(Enum):
    """Conversions of a value into a type's range; the enum's value is BMv2's spelling."""

    WRAP_SIGNED = "two_comp_mod"
    SATURATE_SIGNED = "sat_cast"
    SATURATE = "usat_cast"


@dataclass(frozen=True, slots=True)
class Cast:
    """Convert a value to `int<width>` or `bit<width>`."""

    fit: Fit
    operand: Expression
    width: int


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: Expression
    left: Expression  # the value if the condition is not 0
    right: Expression


Expression = (
    Constant
    | FieldRef
    | ElementField
    | LastIndex
    | IsValid
    | Parameter
    | Lookahead
    | Unary
    | Binary
    | Cast
    | Ternary
)
LValue = FieldRef | ElementField
HeaderRef = int | Element
"""A header by index, or an element of a stack by run-time position."""
