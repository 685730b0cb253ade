"""Types of expressions (specification, §8)."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.limits import MAX_VALUE_BITS
from softswitch.p4 import tree, types
from softswitch.p4.check_operators import OperatorChecker
from softswitch.p4.constants import Evaluator, wrap
from softswitch.p4.conversions import ConversionChecker
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.scopes import Facts, NameScope
from softswitch.p4.type_resolver import TypeResolver
from softswitch.p4.unify import fields_of

_LAST_INDEX = types.Bits(32)


class ExpressionChecker:
    """Finds the type of each expression. `wanted` is the type that the place of the expression asks for."""

    def __init__(
        self, facts: Facts, sources: SourceFiles,
        check_call: Callable[[tree.Call, NameScope, types.Type | None], types.Type],
    ) -> None:  # fmt: skip
        self.facts, self.sources, self._check_call = facts, sources, check_call
        self.evaluator = Evaluator(facts)
        self.resolver = TypeResolver(facts, sources, self.check)
        self.conversions = ConversionChecker(facts, sources)
        self._operators = OperatorChecker(facts, self.conversions, self.check)

    def check(
        self, expression: tree.Expression, scope: NameScope, wanted: types.Type | None = None
    ) -> types.Type:
        found = self._find_type(expression, scope, wanted)
        self.facts.types[expression] = found
        return found

    def expect(self, expression: tree.Expression, wanted: types.Type, scope: NameScope) -> types.Type:
        """Check an expression whose value has to have a type, or one that is converted to it implicitly."""
        found = self.check(expression, scope, wanted)
        self.conversions.check(expression, found, wanted)
        return found

    def _find_type(
        self, expression: tree.Expression, scope: NameScope, wanted: types.Type | None
    ) -> types.Type:
        match expression:
            case tree.Integer(value=value, width=width, is_signed=signed):
                if width is None:
                    return types.INT
                if not int(signed) <= width <= MAX_VALUE_BITS:
                    text = f"expected a width from {int(signed)} to {MAX_VALUE_BITS} bits, got {width}"
                    raise SourceError(expression, text)
                given = types.Bits(width, signed)
                if wrap(value, given) != value:
                    self.sources.warn(expression.position, f"{value} does not fit {given}, and is truncated")
                return given
            case tree.Boolean():
                return types.BOOL
            case tree.String():
                return types.STRING
            case tree.Name():
                return self._name(expression, scope)
            case tree.TypeReference(type=node):
                self.resolver.resolve(node, scope)
                raise SourceError(expression, "expected a value, got a type")
            case tree.Member():
                return self._member(expression, scope)
            case tree.Index():
                return self._index(expression, scope)
            case tree.Slice():
                return self._slice(expression, scope)
            case tree.Unary():
                return self._operators.unary(expression, scope, wanted)
            case tree.Binary():
                return self._operators.binary(expression, scope)
            case tree.Ternary():
                return self._operators.ternary(expression, scope, wanted)
            case tree.Cast():
                return self._cast(expression, scope)
            case tree.Call():
                return self._check_call(expression, scope, wanted)
            case tree.ListExpression():
                return self._list(expression, scope, wanted)
            case tree.StructExpression():
                return self._struct(expression, scope, wanted)
            case tree.InvalidHeader():
                return wanted or types.UNKNOWN
            case tree.Default():
                return types.UNKNOWN if expression.text == "..." else types.Set(wanted or types.UNKNOWN)
            case tree.Mask(value=left, mask=right) | tree.Range(low=left, high=right):
                return types.Set(self._operators.pair(left, right, scope, expression, wanted))

    # -- names and members

    def _name(self, expression: tree.Name, scope: NameScope) -> types.Type:
        if expression.name in self.facts.match_kinds and not scope.find(expression.name):
            return types.MATCH_KIND
        found = self.resolver.find(expression.name, scope, expression, expression.is_global)
        declaration = found[0]
        if isinstance(declaration, types.Variable):
            raise SourceError(expression, f"expected a value, got the type parameter `{declaration}`")
        self.facts.references[expression] = declaration
        return self.facts.declared.get(declaration, types.Named(declaration))

    def _member(self, expression: tree.Member, scope: NameScope) -> types.Type:
        name, base = expression.name, expression.base
        if (static := self.type_before_dot(base, scope)) is not None:
            return self._static_member(expression, static)
        found = types.base_of(self.check(base, scope))
        if found == types.UNKNOWN and self.sources.error_count:
            return types.UNKNOWN  # the cause is reported
        if isinstance(found, types.Struct | types.StructValue):
            fields = fields_of(found, self.facts)
            if name in fields:
                return fields[name]
            declared = ", ".join(fields)
            raise SourceError(expression, f"expected a field of {found} ({declared}), got `{name}`")
        match found, name:
            case types.Stack(element=element), "next" | "last":
                return element
            case types.Stack(), "lastIndex":
                return _LAST_INDEX
            case types.Stack(), "size":
                return types.INT
            case types.ApplyResult(), "hit" | "miss":
                return types.BOOL
            case types.ApplyResult(table=table), "action_run":
                return types.ActionRun(table)
        raise SourceError(expression, f"expected a member of {found}, got `{name}`")

    def type_before_dot(self, base: tree.Expression, scope: NameScope) -> types.Type | None:
        """Return the type that stands before a dot, or None if a value does."""
        if isinstance(base, tree.TypeReference):
            return self.resolver.resolve(base.type, scope)
        if not isinstance(base, tree.Name):
            return None
        found = self.resolver.find(base.name, scope, base, base.is_global)[0]
        if isinstance(found, types.Variable):
            return found
        if isinstance(found, tree.Enum | tree.Typedef | tree.Struct):
            return self.resolver.resolve(tree.NamedType(base.position, base.name, base.is_global), scope)
        return None

    def _static_member(self, expression: tree.Member, static: types.Type) -> types.Type:
        name = expression.name
        if static == types.ERROR:
            for declaration in self.facts.globals.names.get("error", []):
                if isinstance(declaration, tree.Names):
                    for member in declaration.members:
                        if member.name == name:
                            self.facts.references[expression] = member
                            return types.ERROR
            raise SourceError(expression, f"expected a declared error, got `{name}`")
        enum = types.base_of(static)
        if isinstance(enum, types.Enum):
            for member in enum.declaration.members:
                if member.name == name:
                    self.facts.references[expression] = member
                    return static
            names = ", ".join(member.name for member in enum.declaration.members)
            raise SourceError(expression, f"expected a member of {enum} ({names}), got `{name}`")
        raise SourceError(expression, f"expected a member of the type {static}, got `{name}`")

    def _index(self, expression: tree.Index, scope: NameScope) -> types.Type:
        base = types.base_of(self.check(expression.base, scope))
        index = self.check(expression.index, scope)
        value = self.evaluator.value(expression.index)
        if isinstance(base, types.Tuple):
            if not isinstance(value, int) or not 0 <= value < len(base.elements):
                last = len(base.elements) - 1
                raise SourceError(expression, f"expected a constant index from 0 to {last} of {base}")
            return base.elements[value]
        if isinstance(base, types.List):
            return base.element
        if not isinstance(base, types.Stack):
            raise SourceError(expression, f"expected a header stack before `[`, got {base}")
        if not isinstance(types.representation(index), types.Bits) and index != types.INT:
            raise SourceError(expression.index, f"expected an integer as an index, got {index}")
        if isinstance(value, int) and not 0 <= value < base.size:
            raise SourceError(
                expression.index, f"expected an index from 0 to {base.size - 1} of {base}, got {value}"
            )
        return base.element

    def _slice(self, expression: tree.Slice, scope: NameScope) -> types.Type:
        base = types.representation(self.check(expression.base, scope))
        self.check(expression.low, scope)
        if not types.is_numeric(base):
            raise SourceError(expression, f"expected bits to take a slice of, got {base}")
        if expression.high is None:
            assert expression.width is not None
            self.check(expression.width, scope)
            width = self.evaluator.integer(expression.width)
            low_value = self.evaluator.value(expression.low)
            high = None if not isinstance(low_value, int) else low_value + width - 1
        else:
            self.check(expression.high, scope)
            high = self.evaluator.integer(expression.high)
            low_value = self.evaluator.integer(expression.low)
            width = high - low_value + 1
        if width < 1 or (isinstance(low_value, int) and low_value < 0):
            raise SourceError(expression, f"expected bits [high:low] of a slice, got [{high}:{low_value}]")
        if high is not None and isinstance(base, types.Bits) and high >= base.width:
            raise SourceError(
                expression, f"expected a slice of the bits 0 to {base.width - 1} of {base}, got bit {high}"
            )
        return types.Bits(width)

    # -- structures

    def _cast(self, expression: tree.Cast, scope: NameScope) -> types.Type:
        wanted = self.resolver.resolve(expression.type, scope)
        self.facts.declared[expression] = wanted
        found = self.check(expression.operand, scope, wanted)
        if not self.conversions.can_cast(expression.operand, found, wanted):
            raise SourceError(expression, f"expected a value that can become {wanted}, got {found}")
        return wanted

    def _list(
        self, expression: tree.ListExpression, scope: NameScope, wanted: types.Type | None
    ) -> types.Type:
        elements = self._wanted_elements(expression, wanted)
        found = [
            self.check(element, scope, elements[i] if i < len(elements) else None)
            for i, element in enumerate(expression.elements)
        ]
        for element, each, expected in zip(expression.elements, found, elements, strict=False):
            if expected is not None and not types.has_variables(expected):
                self.conversions.check(element, each, expected)
        if (
            elements
            and len(found) > len(elements)
            and not isinstance(types.base_of(wanted or types.INT), types.List)
        ):
            raise SourceError(expression, f"expected {len(elements)} values for {wanted}, got {len(found)}")
        if expression.has_rest and wanted is not None:
            return wanted
        if any(isinstance(each, types.Set) for each in found):
            return types.Set(types.Tuple(tuple(e.element if isinstance(e, types.Set) else e for e in found)))
        return types.Tuple(tuple(found))

    def _wanted_elements(
        self, expression: tree.ListExpression, wanted: types.Type | None
    ) -> list[types.Type | None]:
        match wanted and types.base_of(wanted):
            case types.Struct() as struct:
                return list(fields_of(struct, self.facts).values())
            case types.Tuple(elements):
                return list(elements)
            case types.List(element) | types.Stack(element):
                return [element] * len(expression.elements)
            case types.Set(types.Tuple(elements)):
                return list(elements)
        return []

    def _struct(
        self, expression: tree.StructExpression, scope: NameScope, wanted: types.Type | None
    ) -> types.Type:
        fields = fields_of(types.base_of(wanted), self.facts) if wanted else {}
        is_known = isinstance(wanted and types.base_of(wanted), types.Struct)
        seen: set[str] = set()
        for each in expression.fields:
            if each.name in seen:
                raise SourceError(each, f"expected each field once, `{each.name}` is there twice")
            seen.add(each.name)
            if is_known and each.name not in fields:
                names = ", ".join(fields)
                raise SourceError(each, f"expected a field of {wanted} ({names}), got `{each.name}`")
            found = self.check(each.value, scope, fields.get(each.name))
            expected = fields.get(each.name)
            if expected is not None and not types.has_variables(expected):
                self.conversions.check(each.value, found, expected)
        missing = [name for name in fields if name not in seen]
        if missing and not expression.has_rest:
            raise SourceError(
                expression, f"expected a value of the field `{missing[0]}` of {wanted}, or `...` at the end"
            )
        if isinstance(wanted, types.Struct) and not types.has_variables(wanted):
            return wanted
        given = tuple(each.name for each in expression.fields)
        return types.StructValue(given, tuple(self.facts.types[each.value] for each in expression.fields))
