"""Random expressions of a wanted type."""

from __future__ import annotations

from collections.abc import Callable

from switch_harness.p4_programs.kinds import (
    BOOL,
    Bits,
    Bool,
    Enum,
    Kind,
    Record,
    Scope,
)
from switch_harness.p4_programs.operands import WIDTHS, Binding, OperandDrawer, Text
from switch_harness.p4_programs.render import integer

_ARITHMETIC = {
    "+": Binding.SUM,
    "-": Binding.SUM,
    "|+|": Binding.SUM,
    "|-|": Binding.SUM,
    "*": Binding.PRODUCT,
    "&": Binding.BIT_AND,
    "|": Binding.BIT_OR,
    "^": Binding.BIT_XOR,
}


class ExpressionDrawer(OperandDrawer):
    records: list[Record]
    enums: list[Enum]

    def expression(self, kind: Kind, scope: Scope, depth: int, can_call: bool = True) -> Text:
        if isinstance(kind, Bits):
            return self._bits(kind, scope, depth, can_call)
        if isinstance(kind, Bool):
            return self._bool(scope, depth, can_call)
        return self._other(kind, scope, depth, can_call)

    # -- bits

    def _bits(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        if depth <= 0:
            found = self.leaf(kind, scope) if self.chance(70) else None
            return found or self.literal(kind, scope)
        ways: list[Callable[[Bits, Scope, int, bool], Text | None]] = [
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
        elif self.chance(10):
            left = Text(integer(self.number(max(1, kind.width - 1)), None))
        return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)

    def formula(self, kind: Bits, scope: Scope, depth: int) -> Text:
        """Return an expression of many operators, which depends on their precedences."""
        if depth <= 0:
            return self.leaf(kind, scope) or self.literal(kind, scope)
        if self.chance(10):
            operand = self.formula(kind, scope, depth - 1)
            return Text(f"{self.pick('~-')}{operand.within(Binding.PREFIX)}", Binding.PREFIX)
        operator = self.pick([*_ARITHMETIC, "|", "^", "&", "<<", ">>"])
        precedence = Binding.SHIFT if operator in ("<<", ">>") else _ARITHMETIC[operator]
        left = self.formula(kind, scope, depth - 1)
        right = self.formula(Bits(8) if precedence == Binding.SHIFT else kind, scope, depth - 2)
        if self.chance(50) and precedence != Binding.SHIFT:
            left, right = right, left
        return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)

    def _unary(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        operand = self.expression(kind, scope, depth, can_call)
        return Text(f"{self.pick('~-')}{operand.within(Binding.PREFIX)}", Binding.PREFIX)

    def _shift(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        left = self.expression(kind, scope, depth, can_call)
        if self.chance(50):
            count = Text(integer(self.below(kind.width + 3), None if self.chance(50) else 8))
        else:
            count = self.expression(Bits(self.pick([8, 8, 64])), scope, depth - 1, can_call)
        return Text(
            f"{left.within(Binding.SHIFT)} {self.pick(['<<', '>>'])} {count.within(Binding.SHIFT + 1)}",
            Binding.SHIFT,
        )

    def _concatenation(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text | None:
        if kind.width < 2:
            return None
        high = 1 + self.below(kind.width - 1)
        left = self.expression(Bits(high, kind.is_signed), scope, depth, can_call)
        right = self.expression(Bits(kind.width - high, self.chance(20)), scope, depth, can_call)
        return Text(f"{left.within(Binding.SUM)} ++ {right.within(Binding.SUM + 1)}", Binding.SUM)

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
            return Text(
                f"(bit<1>){self.expression(BOOL, scope, depth, can_call).within(Binding.PREFIX)}",
                Binding.PREFIX,
            )
        fitting = [e for e in self.enums if e.underlying == kind.width and not kind.is_signed]
        if fitting and self.chance(50):
            enum = self.expression(self.pick(fitting), scope, depth, can_call)
            return Text(f"({kind.text}){enum.within(Binding.PREFIX)}", Binding.PREFIX)
        if kind.is_signed:
            return None
        low = self.below(5)
        wide = self.expression(Bits(kind.width + low + self.below(9)), scope, depth, can_call)
        return Text(
            f"{wide.within(Binding.POSTFIX)}[{integer(low + kind.width - 1, None)}:{integer(low, None)}]"
        )

    def _cast(self, kind: Bits, scope: Scope, depth: int, can_call: bool) -> Text:
        if self.chance(30):
            other = Bits(kind.width, not kind.is_signed)
        else:
            other = Bits(self.pick(WIDTHS), kind.is_signed)
        inner = self.expression(other, scope, depth, can_call)
        return Text(f"({kind.text}){inner.within(Binding.PREFIX)}", Binding.PREFIX)

    def _ternary(self, kind: Kind, scope: Scope, depth: int, can_call: bool) -> Text:
        condition = self.expression(BOOL, scope, depth, can_call)
        left = self.expression(kind, scope, depth, can_call)
        right = self.expression(kind, scope, depth, can_call)
        parts = condition.within(Binding.OR), left.within(Binding.TERNARY), right.within(Binding.TERNARY)
        return Text(f"{parts[0]} ? {parts[1]} : {parts[2]}", Binding.TERNARY)

    # -- bools and others

    def _bool(self, scope: Scope, depth: int, can_call: bool) -> Text:
        if depth <= 0:
            found = self.leaf(BOOL, scope) if self.chance(60) else None
            return found or self._comparison(scope, depth, can_call)
        way = self.below(12)
        if way < 4:
            return self._comparison(scope, depth - 1, can_call)
        if way < 7:
            operator, precedence = self.pick([("&&", Binding.AND), ("||", Binding.OR)])
            left = self.expression(BOOL, scope, depth - 1, can_call)
            right = self.expression(BOOL, scope, depth - 1, can_call)
            return Text(f"{left.within(precedence)} {operator} {right.within(precedence + 1)}", precedence)
        if way == 7:
            return Text(
                f"!{self.expression(BOOL, scope, depth - 1, can_call).within(Binding.PREFIX)}", Binding.PREFIX
            )
        if way == 8:
            return Text(
                f"(bool){self.expression(Bits(1), scope, depth - 1, can_call).within(Binding.PREFIX)}",
                Binding.PREFIX,
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
        precedence = Binding.EQUAL if operator in ("==", "!=") else Binding.ORDER
        left = self.expression(kind, scope, depth, can_call)
        right = self.expression(kind, scope, depth, can_call)
        if isinstance(kind, Bits) and self.chance(15):
            right = Text(integer(self.number(max(1, kind.width - 1)), None))
        elif isinstance(kind, Bits) and self.chance(15):
            left = Text(integer(self.number(max(1, kind.width - 1)), None))
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
            parts = [
                f"{name} = {self.text(each, scope, depth - 1, can_call)}"
                for name, each in self.ordered(kind.fields)
            ]
            found = Text(f"({kind.text}){{ {', '.join(parts)} }}", Binding.PREFIX)
        return found or self.literal(kind, scope)

    # -- calls

    def _call(self, kind: Kind, scope: Scope, depth: int, can_call: bool) -> Text | None:
        fitting = [each for each in scope.functions if each.returned == kind]
        if not fitting or not can_call:
            return None
        return self.call(self.pick(fitting), scope, depth)
