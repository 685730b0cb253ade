"""Which expressions are compile-time known values (specification, §18.1)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import CallTarget, Facts

_KNOWN_CALLS = ("constructor", "size")


def check_compile_time(expression: tree.Expression, facts: Facts, evaluator: Evaluator) -> None:
    """Raise `SourceError` unless the value of a checked expression is known when a program is compiled."""
    if not is_compile_time(expression, facts, evaluator):
        raise SourceError(expression, "expected a value that is known when the program is compiled")


def is_compile_time(expression: tree.Expression, facts: Facts, evaluator: Evaluator) -> bool:
    """Return whether a value is known; parameters without a direction are, as each call gives them values."""

    def known(*parts: tree.Expression | None) -> bool:
        return all(part is None or is_compile_time(part, facts, evaluator) for part in parts)

    match expression:
        case tree.Integer() | tree.Boolean() | tree.String() | tree.Default() | tree.InvalidHeader():
            return True
        case tree.Name():
            found = facts.references.get(expression)
            if isinstance(found, tree.Variable | tree.ForIn):
                return False
            return not (isinstance(found, tree.Parameter) and found.direction)
        case tree.Member(base=base):
            if isinstance(facts.references.get(expression), tree.EnumMember):
                return True
            if isinstance(facts.types.get(base), types.Stack) and expression.name == "size":
                return True
            return isinstance(base, tree.TypeReference) or known(base)
        case tree.Call(arguments=arguments):
            target = facts.calls.get(expression)
            if target is None or not (target.kind in _KNOWN_CALLS or _is_factory(target, facts)):
                return False
            return target.kind == "size" or known(*(argument.value for argument in arguments))
        case tree.ListExpression(elements=elements):
            return known(*elements)
        case tree.StructExpression(fields=fields):
            return known(*(field.value for field in fields))
        case tree.Unary(operand=operand) | tree.Cast(operand=operand):
            return known(operand)
        case (
            tree.Binary(left=left, right=right)
            | tree.Mask(value=left, mask=right)
            | tree.Range(low=left, high=right)
        ):
            return known(left, right)
        case tree.Ternary(condition=condition, left=left, right=right):
            return known(condition, left, right)
        case tree.Index(base=base, index=index):
            return known(base, index)
        case tree.Slice(base=base, high=high, low=low, width=width):
            return known(base, high, low, width)
    return evaluator.value(expression) is not None


def _is_factory(target: CallTarget, facts: Facts) -> bool:
    """Return whether a call is one of an extern function that has to be run when the program is compiled."""
    function = target.declaration
    if not isinstance(function, tree.Function) or function.body is not None:
        return False
    makes_object = isinstance(facts.returns.get(function), types.Object)
    return makes_object or function.name == "static_assert" or function.annotation("pure") is not None
