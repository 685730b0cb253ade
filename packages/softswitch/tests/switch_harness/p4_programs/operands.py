"""Operands of random expressions: variables, literals and calls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from switch_harness.p4_programs.choices import Chooser
from switch_harness.p4_programs.kinds import (
    Bits,
    Bool,
    Enum,
    Function,
    Kind,
    Leaf,
    Record,
    Scope,
    Stack,
    Tuple,
)
from switch_harness.p4_programs.render import CLOSE, OPEN, integer


class Binding(IntEnum):
    """How tightly operators bind, from what binds least (specification, §8)."""

    TERNARY = 0
    OR = 1
    AND = 2
    EQUAL = 3
    ORDER = 4
    BIT_OR = 5
    BIT_XOR = 6
    BIT_AND = 7
    SHIFT = 8
    SUM = 9
    PRODUCT = 10
    PREFIX = 11
    POSTFIX = 12


WIDTHS = (8, 1, 7, 16, 32, 33, 64, 65, 128, 3, 9, 24)


@dataclass(frozen=True, slots=True)
class Text:
    """An expression and how tightly its outermost operator binds."""

    text: str
    precedence: Binding = Binding.POSTFIX

    def within(self, precedence: int) -> str:
        """Return the text as an operand of an operator that binds as given, in brackets if needed."""
        if self.precedence < precedence:
            return f"({self.text})"
        return self.text if self.precedence == Binding.POSTFIX else f"{OPEN}{self.text}{CLOSE}"


class OperandDrawer(Chooser):
    def expression(self, kind: Kind, scope: Scope, depth: int, can_call: bool = True) -> Text:
        raise NotImplementedError

    def text(self, kind: Kind, scope: Scope, depth: int = 2, can_call: bool = True) -> str:
        return self.expression(kind, scope, depth, can_call).text

    # -- leaves

    def readable(self, kind: Kind, scope: Scope) -> list[Leaf]:
        return [leaf for leaf in scope.variables if leaf.kind == kind]

    def leaf(self, kind: Kind, scope: Scope, depth: int = 0, can_call: bool = False) -> Text | None:
        """Return the value of a variable, guarded by the validity of its header."""
        if not (found := self.readable(kind, scope)):
            return None
        chosen = self.pick(found)
        if not chosen.guard or isinstance(chosen.kind, Record) or self.chance(2):
            return Text(self.indexed(chosen.text, scope, can_call) if depth > 0 else chosen.text)
        other = self.literal(kind, scope)
        return Text(
            f"{chosen.guard}.isValid() ? {chosen.text} : {other.within(Binding.TERNARY + 1)}", Binding.TERNARY
        )

    def literal(self, kind: Kind, scope: Scope) -> Text:
        match kind:
            case Bits(width, is_signed):
                value = self.number(width)
                if is_signed and value >> (width - 1):
                    value -= 1 << width
                    # The smallest number has no literal: it is the complement of the largest one.
                    if value == -(1 << (width - 1)):
                        return (
                            Text(f"~{integer(-value - 1, width, True)}", Binding.PREFIX)
                            if width > 1
                            else self._cast_literal(kind)
                        )
                    return Text(f"-{integer(-value, width, True)}", Binding.PREFIX)
                return Text(integer(value, width, is_signed))
            case Bool():
                return Text(self.pick(["false", "true"]))
            case Enum(text, members):
                return Text(f"{text}.{self.pick(members)}")
            case Record(fields=fields):
                if self.chance(50):
                    parts = [
                        f"{name} = {self.literal(each, scope).text}" for name, each in self.ordered(fields)
                    ]
                else:
                    parts = [self.literal(each, scope).text for _, each in fields]
                return Text(f"({kind.text}){{ {', '.join(parts)} }}", Binding.PREFIX)
            case Tuple(elements):
                parts = [self.literal(each, scope).text for each in elements]
                return Text(f"({kind.text}){{ {', '.join(parts)} }}", Binding.PREFIX)
            case Stack(element, size):
                parts = [self.literal(element, scope).text for _ in range(size)]
                return Text(f"({kind.text}){{ {', '.join(parts)} }}", Binding.PREFIX)

    def ordered(self, fields: tuple[tuple[str, Kind], ...]) -> tuple[tuple[str, Kind], ...]:
        """Return fields in the order in which they are given values by name."""
        return fields[::-1] if self.chance(40) else fields

    def _cast_literal(self, kind: Bits) -> Text:
        return Text(f"({kind.text}){integer(1, kind.width)}", Binding.PREFIX)

    # -- calls and targets

    def call(self, function: Function, scope: Scope, depth: int, can_call: bool = True) -> Text | None:
        """Return a call, or None if there is no variable for one of its outputs."""
        arguments: list[str] = []
        for direction, _, kind in function.parameters:
            # The same variable as before is what copies make a difference for.
            fitting = {
                v.text for v in scope.variables if v.kind == kind and (v.is_writable or direction == "in")
            }
            if (same := [text for text in arguments if text in fitting]) and self.chance(40):
                arguments.append(self.pick(same))
                continue
            if direction in ("out", "inout"):
                if (target := self.target(kind, scope, direction == "inout", can_call)) is None:
                    return None
                arguments.append(target)
            else:
                arguments.append(self.text(kind, scope, depth, can_call))
        if arguments and self.chance(5):
            names = [name for _, name, _ in function.parameters]
            arguments = [f"{name} = {text}" for name, text in zip(names, arguments, strict=True)]
        return Text(f"{function.name}({', '.join(arguments)})")

    def target(self, kind: Kind, scope: Scope, has_slices: bool = True, can_call: bool = True) -> str | None:
        """Return a variable, or bits of one, to assign a value to."""
        if isinstance(kind, Bits) and not kind.is_signed and has_slices and self.chance(15):
            wide = [
                v for v in scope.variables
                if v.is_writable and isinstance(v.kind, Bits) and v.kind.width > kind.width and not v.guard
            ]  # fmt: skip
            if wide:
                leaf = self.pick(wide)
                assert isinstance(leaf.kind, Bits)
                low = self.below(leaf.kind.width - kind.width + 1)
                return f"{leaf.text}[{integer(low + kind.width - 1, None)}:{integer(low, None)}]"
        found = [v for v in scope.variables if v.is_writable and v.kind == kind]
        return self.indexed(self.pick(found).text, scope, can_call) if found else None

    def indexed(self, text: str, scope: Scope, can_call: bool = True) -> str:
        """Replace a constant index into a stack of two headers by a variable one, sometimes."""
        before, separator, after = text.partition("hdr.s[")
        if not separator or not self.chance(40):
            return text
        index = self.expression(Bits(8), scope, 1, can_call).within(Binding.POSTFIX)
        bit = integer(0, None)
        return f"{before}hdr.s[{index}[{bit}:{bit}]{after[after.index(']') :]}"
