"""Types of expressions (specification, §8)."""

from __future__ import annotations

from softswitch.limits import MAX_VALUE_BITS
from softswitch.p4 import tree, types
from softswitch.p4.constants import wrap
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import Scope
from softswitch.p4.type_resolver import TypeResolver
from softswitch.p4.unify import RIGID, fields_of, unify

_ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "^", "|+|", "|-|")
_ORDER = ("<", ">", "<=", ">=")
_LAST_INDEX = types.Bits(32)


class ExpressionChecker(TypeResolver):
    """Finds the type of each expression. `wanted` is the type that the place of the expression asks for."""

    def check_call(self, call: tree.Call, scope: Scope, wanted: types.Type | None = None) -> types.Type:
        raise NotImplementedError

    def check_expression(
        self, expression: tree.Expression, scope: Scope, wanted: types.Type | None = None
    ) -> types.Type:
        found = self._find_type(expression, scope, wanted)
        self.facts.types[expression] = found
        return found

    def expect(self, expression: tree.Expression, wanted: types.Type, scope: Scope) -> types.Type:
        """Check an expression whose value has to have a type, or one that is converted to it implicitly."""
        found = self.check_expression(expression, scope, wanted)
        self.check_conversion(expression, found, wanted)
        return found

    def check_conversion(self, node: tree.Expression, found: types.Type, wanted: types.Type) -> None:
        base = types.base_of(wanted)
        if isinstance(node, tree.Default):
            if isinstance(base, types.List | types.Object):
                raise SourceError(
                    node.position, f"expected a value of type {wanted}, which has no default value"
                )
            return
        if isinstance(node, tree.InvalidHeader):
            if not (types.is_header(base) or types.is_union(base) or types.has_variables(base)):
                raise SourceError(node.position, f"expected a value of type {wanted}, got the invalid header")
            return
        if isinstance(node, tree.ListExpression | tree.StructExpression) and self._is_partial(node, wanted):
            return
        if types.is_union(base) and isinstance(node, tree.ListExpression):
            raise SourceError(
                node.position, f"expected `{{#}}` or a value of type {wanted}, got a list of values"
            )
        is_copy = isinstance(base, types.Struct) and isinstance(types.base_of(found), types.Tuple)
        is_list = not isinstance(node, tree.Name | tree.Member | tree.Index | tree.Cast | tree.Call)
        if (is_copy and not is_list) or not unify(wanted, found, RIGID, self.facts):
            raise SourceError(node.position, f"expected a value of type {wanted}, got one of type {found}")
        if found == types.INT:
            self._warn_of_loss(node, wanted)

    def _is_partial(self, node: tree.ListExpression | tree.StructExpression, wanted: types.Type) -> bool:
        if not node.has_rest:
            return False
        is_named = isinstance(node, tree.StructExpression)
        allowed = types.Struct if is_named else types.Struct | types.Tuple | types.Stack
        if not isinstance(types.base_of(wanted), allowed):
            raise SourceError(node.position, f"expected a value of type {wanted}, got one that ends in `...`")
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

    def _find_type(self, expression: tree.Expression, scope: Scope, wanted: types.Type | None) -> types.Type:
        match expression:
            case tree.Integer(value=value, width=width, is_signed=signed):
                if width is None:
                    return types.INT
                if not int(signed) <= width <= MAX_VALUE_BITS:
                    text = f"expected a width from {int(signed)} to {MAX_VALUE_BITS} bits, got {width}"
                    raise SourceError(expression.position, text)
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
                self.resolve(node, scope)
                raise SourceError(expression.position, "expected a value, got a type")
            case tree.Member():
                return self._member(expression, scope)
            case tree.Index():
                return self._index(expression, scope)
            case tree.Slice():
                return self._slice(expression, scope)
            case tree.Unary():
                return self._unary(expression, scope, wanted)
            case tree.Binary():
                return self._binary(expression, scope)
            case tree.Ternary():
                return self._ternary(expression, scope, wanted)
            case tree.Cast():
                return self._cast(expression, scope)
            case tree.Call():
                return self.check_call(expression, scope, wanted)
            case tree.ListExpression():
                return self._list(expression, scope, wanted)
            case tree.StructExpression():
                return self._struct(expression, scope, wanted)
            case tree.InvalidHeader():
                return wanted or types.UNKNOWN
            case tree.Default():
                return types.UNKNOWN if expression.text == "..." else types.Set(wanted or types.UNKNOWN)
            case tree.Mask(value=left, mask=right) | tree.Range(low=left, high=right):
                return types.Set(self._pair(left, right, scope, expression, wanted))

    # -- names and members

    def _name(self, expression: tree.Name, scope: Scope) -> types.Type:
        if expression.name in self.facts.match_kinds and not scope.find(expression.name):
            return types.MATCH_KIND
        found = self.find(expression.name, scope, expression, expression.is_global)
        declaration = found[0]
        if isinstance(declaration, types.Variable):
            raise SourceError(
                expression.position, f"expected a value, got the type parameter `{declaration}`"
            )
        self.facts.references[expression] = declaration
        return self.facts.declared.get(declaration, types.Named(declaration))

    def _member(self, expression: tree.Member, scope: Scope) -> types.Type:
        name, base = expression.name, expression.base
        if (static := self._type_before_dot(base, scope)) is not None:
            return self._static_member(expression, static)
        found = types.base_of(self.check_expression(base, scope))
        if found == types.UNKNOWN and self.sources.error_count:
            return types.UNKNOWN  # the cause is reported
        if isinstance(found, types.Struct | types.StructValue):
            fields = fields_of(found, self.facts)
            if name in fields:
                return fields[name]
            declared = ", ".join(fields)
            raise SourceError(expression.position, f"expected a field of {found} ({declared}), got `{name}`")
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
        raise SourceError(expression.position, f"expected a member of {found}, got `{name}`")

    def _type_before_dot(self, base: tree.Expression, scope: Scope) -> types.Type | None:
        """Return the type that stands before a dot, or None if a value does."""
        if isinstance(base, tree.TypeReference):
            return self.resolve(base.type, scope)
        if not isinstance(base, tree.Name):
            return None
        found = self.find(base.name, scope, base, base.is_global)[0]
        if isinstance(found, types.Variable):
            return found
        if isinstance(found, tree.Enum | tree.Typedef | tree.Struct):
            return self.resolve(tree.NamedType(base.position, base.name, base.is_global), scope)
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
            raise SourceError(expression.position, f"expected a declared error, got `{name}`")
        enum = types.base_of(static)
        if isinstance(enum, types.Enum):
            for member in enum.declaration.members:
                if member.name == name:
                    self.facts.references[expression] = member
                    return static
            names = ", ".join(member.name for member in enum.declaration.members)
            raise SourceError(expression.position, f"expected a member of {enum} ({names}), got `{name}`")
        raise SourceError(expression.position, f"expected a member of the type {static}, got `{name}`")

    def _index(self, expression: tree.Index, scope: Scope) -> types.Type:
        base = types.base_of(self.check_expression(expression.base, scope))
        index = self.check_expression(expression.index, scope)
        value = self.evaluator.value(expression.index)
        if isinstance(base, types.Tuple):
            if not isinstance(value, int) or not 0 <= value < len(base.elements):
                last = len(base.elements) - 1
                raise SourceError(
                    expression.position, f"expected a constant index from 0 to {last} of {base}"
                )
            return base.elements[value]
        if isinstance(base, types.List):
            return base.element
        if not isinstance(base, types.Stack):
            raise SourceError(expression.position, f"expected a header stack before `[`, got {base}")
        if not isinstance(types.representation(index), types.Bits) and index != types.INT:
            raise SourceError(expression.index.position, f"expected an integer as an index, got {index}")
        if isinstance(value, int) and not 0 <= value < base.size:
            raise SourceError(
                expression.index.position,
                f"expected an index from 0 to {base.size - 1} of {base}, got {value}",
            )
        return base.element

    def _slice(self, expression: tree.Slice, scope: Scope) -> types.Type:
        base = types.representation(self.check_expression(expression.base, scope))
        self.check_expression(expression.low, scope)
        if not types.is_numeric(base):
            raise SourceError(expression.position, f"expected bits to take a slice of, got {base}")
        if expression.high is None:
            assert expression.width is not None
            self.check_expression(expression.width, scope)
            width = self.evaluator.integer(expression.width)
            low_value = self.evaluator.value(expression.low)
            high = None if not isinstance(low_value, int) else low_value + width - 1
        else:
            self.check_expression(expression.high, scope)
            high = self.evaluator.integer(expression.high)
            low_value = self.evaluator.integer(expression.low)
            width = high - low_value + 1
        if width < 1 or (isinstance(low_value, int) and low_value < 0):
            raise SourceError(
                expression.position, f"expected bits [high:low] of a slice, got [{high}:{low_value}]"
            )
        if high is not None and isinstance(base, types.Bits) and high >= base.width:
            raise SourceError(
                expression.position,
                f"expected a slice of the bits 0 to {base.width - 1} of {base}, got bit {high}",
            )
        return types.Bits(width)

    # -- operators

    def _unary(self, expression: tree.Unary, scope: Scope, wanted: types.Type | None) -> types.Type:
        operator = expression.operator
        found = self.check_expression(expression.operand, scope, wanted)
        found = _value_type(found)
        if operator == "!":
            if found != types.BOOL:
                raise SourceError(expression.position, f"expected a bool after `!`, got {found}")
            return found
        if not types.is_numeric(found) or (operator == "~" and found == types.INT):
            raise SourceError(expression.position, f"expected bits after `{operator}`, got {found}")
        return found

    def _pair(
        self,
        left: tree.Expression,
        right: tree.Expression,
        scope: Scope,
        node: tree.Expression,
        wanted: types.Type | None = None,
    ) -> types.Type:
        """Check two operands of one type, and return it; one without a width takes that of the other."""
        left_type = _comparable(self.check_expression(left, scope, wanted))
        right_type = _comparable(self.check_expression(right, scope, wanted or left_type))
        for one, other in ((left, right_type), (right, left_type)):
            if isinstance(one, tree.InvalidHeader):
                self.check_conversion(one, types.UNKNOWN, other)
        if left_type == types.INT != right_type:
            self.check_conversion(left, left_type, right_type)
            return right_type
        if not unify(left_type, right_type, {}, self.facts):
            if unify(right_type, left_type, {}, self.facts):
                return right_type
            if unify(_value_type(left_type), _value_type(right_type), {}, self.facts):
                return _value_type(left_type)
            operator = node.operator if isinstance(node, tree.Binary) else "&&&"
            raise SourceError(
                node.position,
                f"expected operands of one type at `{operator}`, got {left_type} and {right_type}",
            )
        if right_type == types.INT != left_type:
            self.check_conversion(right, right_type, left_type)
        return left_type

    def _binary(self, expression: tree.Binary, scope: Scope) -> types.Type:
        operator, left, right = expression.operator, expression.left, expression.right
        if operator in ("&&", "||"):
            for each in (left, right):
                found = self.check_expression(each, scope, types.BOOL)
                if found != types.BOOL:
                    raise SourceError(each.position, f"expected a bool at `{operator}`, got {found}")
            return types.BOOL
        if operator in ("<<", ">>"):
            return self._shift(expression, scope)
        if operator == "++":
            left_type = _value_type(self.check_expression(left, scope))
            right_type = _value_type(self.check_expression(right, scope))
            if left_type == types.STRING == right_type:
                return types.STRING
            if not isinstance(left_type, types.Bits) or not isinstance(right_type, types.Bits):
                raise SourceError(
                    expression.position, f"expected bits around `++`, got {left_type} and {right_type}"
                )
            return types.Bits(left_type.width + right_type.width, left_type.signed)
        operand = self._pair(left, right, scope, expression)
        if operator in ("==", "!="):
            if not _can_compare(operand):
                raise SourceError(expression.position, f"expected values that can be compared, got {operand}")
            return types.BOOL
        operand = _value_type(operand)
        if not types.is_numeric(operand):
            raise SourceError(expression.position, f"expected numbers around `{operator}`, got {operand}")
        if operator in _ORDER:
            return types.BOOL
        if operator in ("/", "%"):
            self._check_division(expression, operand)
        if operator in ("|+|", "|-|") and not isinstance(operand, types.Bits):
            raise SourceError(expression.position, f"expected bits around `{operator}`, got {operand}")
        return operand

    def _check_division(self, expression: tree.Binary, operand: types.Type) -> None:
        if isinstance(operand, types.Bits) and operand.signed:
            raise SourceError(
                expression.position,
                f"expected unsigned numbers around `{expression.operator}`, got {operand}",
            )
        divisor = self.evaluator.value(expression.right)
        if isinstance(divisor, int) and divisor <= 0:
            raise SourceError(expression.right.position, f"expected a divisor above 0, got {divisor}")

    def _shift(self, expression: tree.Binary, scope: Scope) -> types.Type:
        found = _value_type(self.check_expression(expression.left, scope))
        count = _value_type(self.check_expression(expression.right, scope))
        if not types.is_numeric(found) or not types.is_numeric(count):
            raise SourceError(
                expression.position,
                f"expected numbers around `{expression.operator}`, got {found} and {count}",
            )
        value = self.evaluator.value(expression.right)
        if isinstance(value, int) and value < 0:
            raise SourceError(expression.right.position, f"expected a shift by at least 0 bits, got {value}")
        if found == types.INT and value is None:
            raise SourceError(
                expression.position,
                "expected a width of the number that is shifted by a number known only later",
            )
        return found

    def _ternary(self, expression: tree.Ternary, scope: Scope, wanted: types.Type | None) -> types.Type:
        self.expect(expression.condition, types.BOOL, scope)
        return self._pair_of_branches(expression, scope, wanted)

    def _pair_of_branches(
        self, expression: tree.Ternary, scope: Scope, wanted: types.Type | None
    ) -> types.Type:
        left = self.check_expression(expression.left, scope, wanted)
        right = self.check_expression(expression.right, scope, wanted)
        found = right if left == types.INT else left
        other = left if left == types.INT else right
        if not unify(found, other, {}, self.facts) and not unify(other, found, {}, self.facts):
            raise SourceError(expression.position, f"expected two values of one type, got {left} and {right}")
        if found == types.INT and self.evaluator.value(expression.condition) is None and wanted is None:
            raise SourceError(expression.position, "expected a width of at least one of the two numbers")
        return wanted if wanted is not None and isinstance(found, types.Tuple | types.StructValue) else found

    def _cast(self, expression: tree.Cast, scope: Scope) -> types.Type:
        wanted = self.resolve(expression.type, scope)
        self.facts.declared[expression] = wanted
        found = self.check_expression(expression.operand, scope, wanted)
        if not self._can_cast(expression.operand, found, wanted):
            raise SourceError(expression.position, f"expected a value that can become {wanted}, got {found}")
        return wanted

    def _can_cast(self, operand: tree.Expression, found: types.Type, wanted: types.Type) -> bool:
        if found == wanted or isinstance(wanted, types.Variable) or isinstance(found, types.Variable):
            return True
        if isinstance(
            operand, tree.Default | tree.InvalidHeader | tree.ListExpression | tree.StructExpression
        ):
            self.check_conversion(operand, found, wanted)
            return True
        if isinstance(wanted, types.New) or isinstance(found, types.New):
            return found == types.INT or types.base_of(wanted) == types.base_of(found)
        left, right = types.representation(wanted), types.representation(found)
        if isinstance(left, types.Bits) and isinstance(right, types.Bits):
            is_enum = isinstance(types.base_of(found), types.Enum)
            if is_enum and types.base_of(found).underlying is None:  # type: ignore[union-attr]  # as `is_enum` says
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

    # -- structures

    def _list(self, expression: tree.ListExpression, scope: Scope, wanted: types.Type | None) -> types.Type:
        elements = self._wanted_elements(expression, wanted)
        found = [
            self.check_expression(element, scope, elements[i] if i < len(elements) else None)
            for i, element in enumerate(expression.elements)
        ]
        for element, each, expected in zip(expression.elements, found, elements, strict=False):
            if expected is not None and not types.has_variables(expected):
                self.check_conversion(element, each, expected)
        if (
            elements
            and len(found) > len(elements)
            and not isinstance(types.base_of(wanted or types.INT), types.List)
        ):
            raise SourceError(
                expression.position, f"expected {len(elements)} values for {wanted}, got {len(found)}"
            )
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
        self, expression: tree.StructExpression, scope: Scope, wanted: types.Type | None
    ) -> types.Type:
        fields = fields_of(types.base_of(wanted), self.facts) if wanted else {}
        is_known = isinstance(wanted and types.base_of(wanted), types.Struct)
        seen: set[str] = set()
        for each in expression.fields:
            if each.name in seen:
                raise SourceError(each.position, f"expected each field once, `{each.name}` is there twice")
            seen.add(each.name)
            if is_known and each.name not in fields:
                names = ", ".join(fields)
                raise SourceError(each.position, f"expected a field of {wanted} ({names}), got `{each.name}`")
            found = self.check_expression(each.value, scope, fields.get(each.name))
            expected = fields.get(each.name)
            if expected is not None and not types.has_variables(expected):
                self.check_conversion(each.value, found, expected)
        missing = [name for name in fields if name not in seen]
        if missing and not expression.has_rest:
            raise SourceError(
                expression.position,
                f"expected a value of the field `{missing[0]}` of {wanted}, or `...` at the end",
            )
        if isinstance(wanted, types.Struct) and not types.has_variables(wanted):
            return wanted
        given = tuple(each.name for each in expression.fields)
        return types.StructValue(given, tuple(self.facts.types[each.value] for each in expression.fields))


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
