"""Operators and casts (specification, §8.5 to §8.11)."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.p4 import tree, types
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.expressions import Expressions
from switch_harness.p4_interpreter.instances import Activation
from switch_harness.p4_interpreter.values import Header, Stack, Struct, Value, reduced

_PLAIN: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_LISTS = (tree.ListExpression, tree.StructExpression, tree.InvalidHeader)


class Operators(Expressions):
    def unary(self, expression: tree.Unary, activation: Activation, wanted: types.Type | None) -> Value:
        given = self.type_of(expression, activation)
        value = self.scalar(expression.operand, activation, wanted if given == types.INT else None)
        if expression.operator == "!":
            return not value
        assert isinstance(value, int)
        result = {"-": -value, "+": value, "~": ~value}[expression.operator]
        return self._in_type(result, given)

    def _in_type(self, value: int, given: types.Type) -> int:
        bits = types.representation(given)
        return reduced(value, bits.width, bits.signed) if isinstance(bits, types.Bits) else value

    def binary(self, expression: tree.Binary, activation: Activation) -> Value:
        operator, left, right = expression.operator, expression.left, expression.right
        if operator in ("&&", "||"):
            if self.holds(left, activation) == (operator == "||"):
                return operator == "||"
            return self.holds(right, activation)
        if operator in ("==", "!="):
            return self._equality(expression, activation) == (operator == "==")
        left_type, right_type = (types.representation(self.type_of(e, activation)) for e in (left, right))
        if operator in ("<<", ">>"):
            return self._shift(expression, activation)
        if operator == "++":
            high, low = self.integer(left, activation), self.integer(right, activation)
            assert isinstance(right_type, types.Bits)
            joined = high << right_type.width | low & ((1 << right_type.width) - 1)
            return self._in_type(joined, self.type_of(expression, activation))
        common = right_type if left_type == types.INT else left_type
        one, other = self.integer(left, activation, common), self.integer(right, activation, common)
        if operator in _ORDER:
            return _ORDER[operator](one, other)
        if operator in ("|+|", "|-|"):
            assert isinstance(common, types.Bits)
            lowest = -(1 << (common.width - 1)) if common.signed else 0
            highest = (1 << (common.width - 1 if common.signed else common.width)) - 1
            return max(lowest, min(highest, one + other if operator == "|+|" else one - other))
        return self._in_type(_PLAIN[operator](one, other), common)

    def _shift(self, expression: tree.Binary, activation: Activation) -> int:
        value = self.integer(expression.left, activation)
        count = self.integer(expression.right, activation)
        given = types.representation(self.type_of(expression, activation))
        if isinstance(given, types.Bits):
            count = min(count, given.width)
        shifted = value << count if expression.operator == "<<" else value >> count
        return self._in_type(shifted, given)

    def _equality(self, expression: tree.Binary, activation: Activation) -> bool:
        left, right = expression.left, expression.right
        left_type, right_type = self.type_of(left, activation), self.type_of(right, activation)
        is_left_open = left_type == types.INT or isinstance(left, _LISTS)
        common = right_type if is_left_open else left_type
        if isinstance(types.base_of(common), types.Enum) and types.INT in (left_type, right_type):
            common = types.representation(common)
        one = self.evaluate(left, activation, common)
        other = self.evaluate(right, activation, common)
        return self.equal(one, other, common)

    def equal(self, one: Value, other: Value, given: types.Type) -> bool:
        """Compare values of a type; parts of headers are compared only if both are valid."""
        match one, other:
            case Header(parts, valid), Header(others, other_valid):
                first = bool(self.fill.bits(1)) if valid is None else valid
                second = bool(self.fill.bits(1)) if other_valid is None else other_valid
                if not (first and second):
                    return first == second
                return self._parts_equal(parts, others, given)
            case Struct(parts), Struct(others):
                return self._parts_equal(parts, others, given)
            case Stack(elements), Stack(others):
                element = types.base_of(given)
                assert isinstance(element, types.Stack)
                pairs = zip(elements, others, strict=True)
                return all([self.equal(values.load(a), values.load(b), element.element) for a, b in pairs])
        return self.defined(one, given) == self.defined(other, given)

    def _parts_equal(
        self, parts: dict[str, values.Storage], others: dict[str, values.Storage], given: types.Type
    ) -> bool:
        kinds = values.element_types(given, self.facts)
        return all(
            [self.equal(values.load(parts[name]), values.load(others[name]), kinds[name]) for name in parts]
        )

    def cast(self, expression: tree.Cast, activation: Activation) -> Value:
        wanted = self.declared(expression, activation)
        found = self.type_of(expression.operand, activation)
        value = self.evaluate(
            expression.operand, activation, wanted if isinstance(expression.operand, _LISTS) else None
        )
        if isinstance(value, Struct | Header | Stack):
            return value
        if value is None and wanted == found:
            return None
        return self._cast_scalar(self.defined(value, found), wanted)

    def _cast_scalar(self, value: int | bool | str, wanted: types.Type) -> Value:
        if types.base_of(wanted) == types.BOOL:
            return bool(value)
        return self._in_type(int(value), wanted) if isinstance(value, int) else value
