"""Random expressions of a wanted type."""

from __future__ import annotations

from dataclasses import dataclass

from switch_harness.p4_programs.choices import Chooser
from switch_harness.p4_programs.kinds import (
    BOOL,
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

# Precedences (specification, §8), from what binds least.
(
    _TERNARY,
    _OR,
    _AND,
    _EQUAL,
    _ORDER,
    _BIT_OR,
    _BIT_XOR,
    _BIT_AND,
    _SHIFT,
    _SUM,
    _PRODUCT,
    _PREFIX,
    _POSTFIX,
) = range(13)
_ARITHMETIC = {
    "+": _SUM, "-": _SUM, "|+|": _SUM, "|-|": _SUM, "*": _PRODUCT, "&": _BIT_AND, "|": _BIT_OR, "^": _BIT_XOR,
}  # fmt: skip
WIDTHS = (8, 1, 7, 16, 32, 33, 64, 65, 128, 3, 9, 24)


@dataclass(frozen=True, slots=True)
class Text:
    """An expression and how tightly its outermost operator binds."""

    text: str
    precedence: int = _POSTFIX

    def within(self, precedence: int) -> str:
        """Return the text as an operand of an operator that binds as given: with brackets if it needs them."""
        if self.precedence < precedence:
            return f"({self.text})"
        return self.text if self.precedence == _POSTFIX else f"{OPEN}{self.text}{CLOSE}"


class ExpressionDrawer(Chooser):
    records: list[Record]
    enums: list[Enum]

    def expression(self, kind: Kind, scope: Scope, depth: int, can_call: bool = True) -> Text:
        if isinstance(kind, Bits):
            return self._bits(kind, scope, depth, can_call)
        if isinstance(kind, Bool):
            return self._bool(scope, depth, can_call)
        return self._other(kind, scope, depth, can_call)

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
        return Text(f"{chosen.guard}.isValid() ? {chosen.text} : {other.within(_TERNARY + 1)}", _TERNARY)

    def literal(self, kind: Kind, scope: Scope) -> Text:
        match kind:
            case Bits(width, is_signed):
                value = self.number(width)
                if is_signed and value >> (width - 1):
                    value -= 1 << width
                    # The smallest number has no literal: it is the complement of the largest one.
                    if value == -(1 << (width - 1)):
                        return (
                            Text(f"~{integer(-value - 1, width, True)}", _PREFIX)
                            if width > 1
                            else self._cast_literal(kind)
                        )
                    return Text(f"-{integer(-value, width, True)}", _PREFIX)
                return Text(integer(value, width, is_signed))
            case Bool():
                return Text(self.pick(["false", "true"]))
            case Enum(text, members):
                return Text(f"{text}.{self.pick(members)}")
            case Record(fields=fields):
                if self.chance(50):
                    parts = [f"{name} = {self.literal(each, scope).text}" for name, each in fields]
                else:
                    parts = [self.literal(each, scope).text for _, each in fields]
                return Text(f"({kind.text}){{ {', '.join(parts)} }}", _PREFIX)
            case Tuple(elements):
                parts = [self.literal(each, scope).text for each in elements]
                return Text(f"({kind.text}){{ {', '.join(parts)} }}", _PREFIX)
            case Stack(element, size):
                parts = [self.literal(element, scope).text for _ in range(size)]
                return Text(f"({kind.text}){{ {', '.join(parts)} }}", _PREFIX)

    def _cast_literal(self, kind: Bits) -> Text:
        return Text(f"({kind.text}){integer(1, kind.width)}", _PREFIX)

    # -- bits

    def _bits(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        if depth <= 0:
            found = self.leaf(kind, scope) if self.chance(70) else None
            return found or self.literal(kind, scope)
        ways = [
            self.leaf, self._arithmetic, self._arithmetic, self._cast, self._slice, self._unary, self._shift,
            self._concatenation, self._ternary, self._call, self._call, self._narrow,
        ]  # fmt: skip
        found = self.pick(ways)(kind, scope, depth - 1, can_call)
        return found or self.leaf(kind, scope) or self.literal(kind, scope)

    def _arithmetic(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        operator = self.pick(list(_ARITHMETIC))
        precedence = _ARITHMETIC[operator]
        left = self.expression(kind, scope, depth, can_call)
        right = self.expression(kind, scope, depth, can_call)
        if self.chance(10):
            right = Text(integer(self.number(max(1, kind.width - 1)), None))
        return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)

    def formula(self, kind: Bits, scope: Scope, depth: int) -> Text:
        """Return an expression of many operators, which depends on their precedences."""
        if depth <= 0:
            return self.leaf(kind, scope) or self.literal(kind, scope)
        if self.chance(10):
            operand = self.formula(kind, scope, depth - 1)
            return Text(f"{self.pick('~-')}{operand.within(_PREFIX)}", _PREFIX)
        operator = self.pick([*_ARITHMETIC, "|", "^", "&", "<<", ">>"])
        precedence = _SHIFT if operator in ("<<", ">>") else _ARITHMETIC[operator]
        left = self.formula(kind, scope, depth - 1)
        right = self.formula(Bits(8) if precedence == _SHIFT else kind, scope, depth - 2)
        if self.chance(50) and precedence != _SHIFT:
            left, right = right, left
        return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)

    def _unary(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        operand = self.expression(kind, scope, depth, can_call)
        return Text(f"{self.pick('~-')}{operand.within(_PREFIX)}", _PREFIX)

    def _shift(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        left = self.expression(kind, scope, depth, can_call)
        if self.chance(50):
            count = Text(integer(self.below(kind.width + 3), None if self.chance(50) else 8))
        else:
            count = self.expression(Bits(self.pick([8, 8, 64])), scope, depth - 1, can_call)
        return Text(f"{left.within(_SHIFT)} {self.pick(['<<', '>>'])} {count.within(_SHIFT + 1)}", _SHIFT)

    def _concatenation(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text | None:
        if kind.width < 2:
            return None
        high = 1 + self.below(kind.width - 1)
        left = self.expression(Bits(high, kind.is_signed), scope, depth, can_call)
        right = self.expression(Bits(kind.width - high, self.chance(20)), scope, depth, can_call)
        return Text(f"{left.within(_SUM)} ++ {right.within(_SUM + 1)}", _SUM)

    def _slice(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text | None:
        if kind.is_signed:
            return None
        wide = [
            v
            for v in scope.variables
            if isinstance(v.kind, Bits) and v.kind.width >= kind.width and not v.guard
        ]
        if not wide:
            return None
        leaf = self.pick(wide)
        assert isinstance(leaf.kind, Bits)
        low = self.below(leaf.kind.width - kind.width + 1)
        if self.chance(20):
            return Text(f"{leaf.text}[{integer(low, None)} +: {integer(kind.width, None)}]")
        return Text(f"{leaf.text}[{integer(low + kind.width - 1, None)}:{integer(low, None)}]")

    def _narrow(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text | None:
        """Return a slice of an expression, or the bits of a bool or an enum."""
        if kind.width == 1 and not kind.is_signed and self.chance(50):
            return Text(f"(bit<1>){self.expression(BOOL, scope, depth, can_call).within(_PREFIX)}", _PREFIX)
        fitting = [e for e in self.enums if e.underlying == kind.width and not kind.is_signed]
        if fitting and self.chance(50):
            enum = self.expression(self.pick(fitting), scope, depth, can_call)
            return Text(f"({kind.text}){enum.within(_PREFIX)}", _PREFIX)
        if kind.is_signed:
            return None
        low = self.below(5)
        wide = self.expression(Bits(kind.width + low + self.below(9)), scope, depth, can_call)
        return Text(f"{wide.within(_POSTFIX)}[{integer(low + kind.width - 1, None)}:{integer(low, None)}]")

    def _cast(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        if self.chance(30):
            other = Bits(kind.width, not kind.is_signed)
        else:
            other = Bits(self.pick(WIDTHS), kind.is_signed)
        inner = self.expression(other, scope, depth, can_call)
        return Text(f"({kind.text}){inner.within(_PREFIX)}", _PREFIX)

    def _ternary(self, kind: Kind, scope: Scope, depth: int, can_call: bool) -> Text:
        condition = self.expression(BOOL, scope, depth, can_call)
        left = self.expression(kind, scope, depth, can_call)
        right = self.expression(kind, scope, depth, can_call)
        parts = condition.within(_OR), left.within(_TERNARY), right.within(_TERNARY)
        return Text(f"{parts[0]} ? {parts[1]} : {parts[2]}", _TERNARY)

    # -- bools and others

    def _bool(self, scope: Scope, depth: int, can_call: bool) -> Text:
        if depth <= 0:
            found = self.leaf(BOOL, scope) if self.chance(60) else None
            return found or self._comparison(scope, depth, can_call)
        way = self.below(12)
        if way < 4:
            return self._comparison(scope, depth - 1, can_call)
        if way < 7:
            operator, precedence = self.pick([("&&", _AND), ("||", _OR)])
            left = self.expression(BOOL, scope, depth - 1, can_call)
            right = self.expression(BOOL, scope, depth - 1, can_call)
            return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)
        if way == 7:
            return Text(f"!{self.expression(BOOL, scope, depth - 1, can_call).within(_PREFIX)}", _PREFIX)
        if way == 8:
            return Text(
                f"(bool){self.expression(Bits(1), scope, depth - 1, can_call).within(_PREFIX)}", _PREFIX
            )
        if way == 9:
            headers = [v for v in scope.variables if isinstance(v.kind, Record) and v.kind.is_header]
            if headers:
                return Text(f"{self.pick(headers).text}.isValid()")
        if way == 10 and (called := self._call(BOOL, scope, depth - 1, can_call)) is not None:
            return called
        if way == 11:
            return self._ternary(BOOL, scope, depth - 1, can_call)
        return self.leaf(BOOL, scope) or Text(self.pick(["false", "true"]))

    def _comparison(self, scope: Scope, depth: int, can_call: bool) -> Text:
        way = self.below(8)
        kind: Kind = Bits(self.pick(WIDTHS), self.chance(30))
        if way == 7 and self.records:
            kind = self.pick(self.records)
        elif way == 6 and self.enums:
            kind = self.pick(self.enums)
        elif known := [v.kind for v in scope.variables if isinstance(v.kind, Bits)]:
            kind = self.pick(known)
        operator = self.pick(["==", "!=", "<", "<=", ">", ">="] if isinstance(kind, Bits) else ["==", "!="])
        precedence = _EQUAL if operator in ("==", "!=") else _ORDER
        left = self.expression(kind, scope, depth, can_call)
        right = self.expression(kind, scope, depth, can_call)
        if isinstance(kind, Bits) and self.chance(15):
            right = Text(integer(self.number(max(1, kind.width - 1)), None))
        return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)

    def _other(self, kind: Kind, scope: Scope, depth: int, can_call: bool) -> Text:
        way = self.below(6) if depth > 0 else self.below(3)
        found: Text | None = None
        if way < 2:
            found = self.leaf(kind, scope)
        elif way == 3:
            found = self._call(kind, scope, depth - 1, can_call)
        elif way == 4:
            found = self._ternary(kind, scope, depth - 1, can_call)
        elif way == 5 and isinstance(kind, Record):
            parts = [f"{name} = {self.text(each, scope, depth - 1, can_call)}" for name, each in kind.fields]
            found = Text(f"({kind.text}){{ {', '.join(parts)} }}", _PREFIX)
        return found or self.literal(kind, scope)

    # -- calls

    def _call(self, kind: Kind, scope: Scope, depth: int, can_call: bool) -> Text | None:
        fitting = [each for each in scope.functions if each.returned == kind]
        if not fitting or not can_call:
            return None
        return self.call(self.pick(fitting), scope, depth)

    def call(self, function: Function, scope: Scope, depth: int, can_call: bool = True) -> Text | None:
        """Return a call, or None if there is no variable for one of its outputs."""
        arguments: list[str] = []
        for direction, _, kind in function.parameters:
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
        index = self.expression(Bits(8), scope, 1, can_call).within(_POSTFIX)
        bit = integer(0, None)
        return f"{before}hdr.s[{index}[{bit}:{bit}]{after[after.index(']') :]}"
