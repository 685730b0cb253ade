"""Implicit conversions, and casts (specification, §8.11)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator, wrap
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.scopes import Facts
from softswitch.p4.unify import RIGID, unify


class ConversionChecker:
    def __init__(self, facts: Facts, sources: SourceFiles) -> None:
        self.facts, self.sources, self.evaluator = facts, sources, Evaluator(facts)

    def check(self, node: tree.Expression, found: types.Type, wanted: types.Type) -> None:
        base = types.base_of(wanted)
        if isinstance(node, tree.Default):
            if isinstance(base, types.List | types.Object):
                raise SourceError(node, f"expected a value of type {wanted}, which has no default value")
            return
        if isinstance(node, tree.InvalidHeader):
            if not (types.is_header(base) or types.is_union(base) or types.has_variables(base)):
                raise SourceError(node, f"expected a value of type {wanted}, got the invalid header")
            return
        if isinstance(node, tree.ListExpression | tree.StructExpression) and self._is_partial(node, wanted):
            return
        if types.is_union(base) and isinstance(node, tree.ListExpression):
            raise SourceError(node, f"expected `{{#}}` or a value of type {wanted}, got a list of values")
        is_copy = isinstance(base, types.Struct) and isinstance(types.base_of(found), types.Tuple)
        is_list = not isinstance(node, tree.Name | tree.Member | tree.Index | tree.Cast | tree.Call)
        if (is_copy and not is_list) or not unify(wanted, found, RIGID, self.facts):
            raise SourceError(node, f"expected a value of type {wanted}, got one of type {found}")
        if found == types.INT:
            self._warn_of_loss(node, wanted)

    def _is_partial(self, node: tree.ListExpression | tree.StructExpression, wanted: types.Type) -> bool:
        if not node.has_rest:
            return False
        is_named = isinstance(node, tree.StructExpression)
        allowed = types.Struct if is_named else types.Struct | types.Tuple | types.Stack
        if not isinstance(types.base_of(wanted), allowed):
            raise SourceError(node, f"expected a value of type {wanted}, got one that ends in `...`")
        return True

    def _warn_of_loss(self, node: tree.Expression, wanted: types.Type) -> None:
        value = self.evaluator.value(node)
        if isinstance(value, int) and not isinstance(value, bool) and wrap(value, wanted) != value:
            bits = types.representation(wanted)
            is_fine = isinstance(bits, types.Bits) and not bits.signed and -(1 << bits.width) < value < 0
            if not is_fine or isinstance(node, tree.Integer):
                self.sources.warn(
                    node.position, f"{value} does not fit {wanted}, and becomes {wrap(value, wanted)}"
                )

    def can_cast(self, operand: tree.Expression, found: types.Type, wanted: types.Type) -> bool:
        if found == wanted or isinstance(wanted, types.Variable) or isinstance(found, types.Variable):
            return True
        if isinstance(
            operand, tree.Default | tree.InvalidHeader | tree.ListExpression | tree.StructExpression
        ):
            self.check(operand, found, wanted)
            return True
        if isinstance(wanted, types.New) or isinstance(found, types.New):
            return found == types.INT or types.base_of(wanted) == types.base_of(found)
        left, right = types.representation(wanted), types.representation(found)
        if isinstance(left, types.Bits) and isinstance(right, types.Bits):
            base = types.base_of(found)
            if isinstance(base, types.Enum) and base.underlying is None:
                return False
            return left.width == right.width or left.signed == right.signed
        if isinstance(left, types.Bits):
            return right == types.INT or (right == types.BOOL and left == types.Bits(1))
        if left == types.BOOL and right == types.INT:
            return self.evaluator.value(operand) in (0, 1)
        if left == types.BOOL:
            return right in (types.Bits(1), types.INT, types.BOOL)
        if left == types.INT:
            return types.is_numeric(right) or right == types.BOOL
        return unify(wanted, found, {}, self.facts)
