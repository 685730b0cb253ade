"""Types of operations (specification, §8)."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.conversions import ConversionChecker
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import Facts, NameScope
from softswitch.p4.unify import unify

_ORDER = ("<", ">", "<=", ">=")
CheckExpression = Callable[[tree.Expression, NameScope, types.Type | None], types.Type]


class OperatorChecker:
    def __init__(self, facts: Facts, conversions: ConversionChecker, check: CheckExpression) -> None:
        self.facts, self._conversions, self._check = facts, conversions, check
        self.evaluator = Evaluator(facts)

    def unary(self, expression: tree.Unary, scope: NameScope, wanted: types.Type | None) -> types.Type:
        operator = expression.operator
        found = self._check(expression.operand, scope, wanted)
        found = _value_type(found)
        if operator == "!":
            if found != types.BOOL:
                raise SourceError(expression, f"expected a bool after `!`, got {found}")
            return found
        if not types.is_numeric(found) or (operator == "~" and found == types.INT):
            raise SourceError(expression, f"expected bits after `{operator}`, got {found}")
        return found

    def pair(
        self,
        left: tree.Expression,
        right: tree.Expression,
        scope: NameScope,
        node: tree.Expression,
        wanted: types.Type | None = None,
    ) -> types.Type:
        """Check two operands of one type, and return it; one without a width takes that of the other."""
        left_type = _comparable(self._check(left, scope, wanted))
        right_type = _comparable(self._check(right, scope, wanted or left_type))
        for one, other in ((left, right_type), (right, left_type)):
            if isinstance(one, tree.InvalidHeader):
                self._conversions.check(one, types.UNKNOWN, other)
        if left_type == types.INT != right_type:
            self._conversions.check(left, left_type, right_type)
            return right_type
        if not unify(left_type, right_type, {}, self.facts):
            if unify(right_type, left_type, {}, self.facts):
                return right_type
            if unify(_value_type(left_type), _value_type(right_type), {}, self.facts):
                return _value_type(left_type)
            operator = node.operator if isinstance(node, tree.Binary) else "&&&"
            raise SourceError(
                node, f"expected operands of one type at `{operator}`, got {left_type} and {right_type}"
            )
        if right_type == types.INT != left_type:
            self._conversions.check(right, right_type, left_type)
        return left_type

    def binary(self, expression: tree.Binary, scope: NameScope) -> types.Type:
        operator, left, right = expression.operator, expression.left, expression.right
        if operator in ("&&", "||"):
            for each in (left, right):
                found = self._check(each, scope, types.BOOL)
                if found != types.BOOL:
                    raise SourceError(each, f"expected a bool at `{operator}`, got {found}")
            return types.BOOL
        if operator in ("<<", ">>"):
            return self._shift(expression, scope)
        if operator == "++":
            left_type = _value_type(self._check(left, scope, None))
            right_type = _value_type(self._check(right, scope, None))
            if left_type == types.STRING == right_type:
                return types.STRING
            if not isinstance(left_type, types.Bits) or not isinstance(right_type, types.Bits):
                raise SourceError(expression, f"expected bits around `++`, got {left_type} and {right_type}")
            return types.Bits(left_type.width + right_type.width, left_type.signed)
        operand = self.pair(left, right, scope, expression)
        if operator in ("==", "!="):
            if not _can_compare(operand):
                raise SourceError(expression, f"expected values that can be compared, got {operand}")
            return types.BOOL
        operand = _value_type(operand)
        if not types.is_numeric(operand):
            raise SourceError(expression, f"expected numbers around `{operator}`, got {operand}")
        if operator in _ORDER:
            return types.BOOL
        if operator in ("/", "%"):
            self._check_division(expression, operand)
        if operator in ("|+|", "|-|") and not isinstance(operand, types.Bits):
            raise SourceError(expression, f"expected bits around `{operator}`, got {operand}")
        return operand

    def _check_division(self, expression: tree.Binary, operand: types.Type) -> None:
        if isinstance(operand, types.Bits) and operand.signed:
            raise SourceError(
                expression, f"expected unsigned numbers around `{expression.operator}`, got {operand}"
            )
        divisor = self.evaluator.value(expression.right)
        if isinstance(divisor, int) and divisor <= 0:
            raise SourceError(expression.right, f"expected a divisor above 0, got {divisor}")

    def _shift(self, expression: tree.Binary, scope: NameScope) -> types.Type:
        found = _value_type(self._check(expression.left, scope, None))
        count = _value_type(self._check(expression.right, scope, None))
        if not types.is_numeric(found) or not types.is_numeric(count):
            raise SourceError(
                expression, f"expected numbers around `{expression.operator}`, got {found} and {count}"
            )
        value = self.evaluator.value(expression.right)
        if isinstance(value, int) and value < 0:
            raise SourceError(expression.right, f"expected a shift by at least 0 bits, got {value}")
        if found == types.INT and value is None:
            raise SourceError(
                expression, "expected a width of the number that is shifted by a number known only later"
            )
        return found

    def ternary(self, expression: tree.Ternary, scope: NameScope, wanted: types.Type | None) -> types.Type:
        condition = self._check(expression.condition, scope, types.BOOL)
        self._conversions.check(expression.condition, condition, types.BOOL)
        left = self._check(expression.left, scope, wanted)
        right = self._check(expression.right, scope, wanted)
        found = right if left == types.INT else left
        other = left if left == types.INT else right
        if not unify(found, other, {}, self.facts) and not unify(other, found, {}, self.facts):
            raise SourceError(expression, f"expected two values of one type, got {left} and {right}")
        if found == types.INT and self.evaluator.value(expression.condition) is None and wanted is None:
            raise SourceError(expression, "expected a width of at least one of the two numbers")
        return wanted if wanted is not None and isinstance(found, types.Tuple | types.StructValue) else found


def _value_type(found: types.Type) -> types.Type:
    """Return the type with which an operator computes: the bits of a serializable enum."""
    if isinstance(found, types.Enum) and found.underlying is not None:
        return found.underlying
    return found


def _comparable(found: types.Type) -> types.Type:
    return found.element if isinstance(found, types.Set) else found


def _can_compare(found: types.Type) -> bool:
    """Return whether `==` is defined for a type (specification, §8.2 to §8.18)."""
    match found:
        case types.Object() | types.Named() | types.ApplyResult() | types.ActionRun() | types.Variable():
            return False
        case types.StructValue() | types.Set():
            return False
    return found != types.VOID
