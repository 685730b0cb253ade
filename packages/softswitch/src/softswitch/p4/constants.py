"""Values of expressions that are known when a program is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import CallTarget, Facts

MAX_CONSTANT_BITS = 1 << 16


@dataclass(frozen=True, slots=True)
class MemberValue:
    """A member of an enum without values, of `error`, or of `match_kind`."""

    type: types.Type
    name: str


Value: TypeAlias = "int | bool | str | MemberValue | list[Value] | dict[str, Value]"
Bindings = Mapping[tree.Declaration, object]
"""Values of parameters, such as those of a constructor."""


def wrap(value: int, given: types.Type) -> int:
    """Return an integer reduced to the range of a type."""
    given = types.representation(given)
    if not isinstance(given, types.Bits):
        return value
    value &= (1 << given.width) - 1
    if given.signed and given.width and value >> (given.width - 1):
        value -= 1 << given.width
    return value


class Evaluator:
    """Evaluates expressions of a checked program; `substitution` gives the types of generic declarations."""

    def __init__(
        self, facts: Facts, bindings: Bindings | None = None, substitution: types.Substitution | None = None
    ) -> None:
        self._facts, self._bindings = facts, bindings if bindings is not None else {}
        self._substitution = substitution or {}

    def type_of(self, expression: tree.Expression) -> types.Type:
        return types.substitute(self._facts.types.get(expression, types.UNKNOWN), self._substitution)

    def integer(self, expression: tree.Expression) -> int:
        """Return an integer; raise `SourceError` if the value is not known, or something else."""
        value = self.value(expression)
        if isinstance(value, bool) or not isinstance(value, int):
            raise SourceError(expression, "expected an integer that is known when the program is compiled")
        return value

    def value(self, expression: tree.Expression) -> Value | None:
        """Return the value, or None if it is not known."""
        match expression:
            case tree.Integer(value=value, width=width, is_signed=signed):
                return value if width is None else wrap(value, types.Bits(width, signed))
            case tree.Boolean(value=truth):
                return truth
            case tree.String(text=text):
                return text
            case tree.Name():
                return self._name(expression)
            case tree.Member():
                return self._member(expression)
            case tree.Unary():
                return self._unary(expression)
            case tree.Binary():
                return self._binary(expression)
            case tree.Ternary(condition=condition, left=left, right=right):
                holds = self.value(condition)
                if holds is None:
                    return None
                return self._as(left if holds else right, self.type_of(expression))
            case tree.Cast():
                return self._cast(expression)
            case tree.Slice():
                return self._slice(expression)
            case tree.ListExpression(elements=elements, has_rest=False):
                values = [each for element in elements if (each := self.value(element)) is not None]
                return values if len(values) == len(elements) else None
            case tree.StructExpression(fields=fields, has_rest=False):
                pairs = [(f.name, each) for f in fields if (each := self.value(f.value)) is not None]
                return dict(pairs) if len(pairs) == len(fields) else None
            case tree.Index(base=base, index=index):
                sequence, position = self.value(base), self.value(index)
                if isinstance(sequence, list) and isinstance(position, int) and 0 <= position < len(sequence):
                    return sequence[position]
                return None
            case tree.Call():
                return self._call(expression)
        return None

    def _as(self, expression: tree.Expression, wanted: types.Type) -> Value | None:
        """Return a value as one of a type, to which integers without a width are converted."""
        value = self.value(expression)
        return wrap(value, wanted) if isinstance(value, int) and not isinstance(value, bool) else value

    def _name(self, expression: tree.Name) -> Value | None:
        declaration = self._facts.references.get(expression)
        if declaration is None:
            return None
        for known in (self._bindings, self._facts.constants):
            if declaration in known:
                bound = known[declaration]
                return bound if isinstance(bound, int | bool | str | MemberValue | list | dict) else None
        if isinstance(declaration, tree.Constant):
            return self.constant(declaration)
        return None

    def constant(self, declaration: tree.Constant) -> Value | None:
        declared = types.substitute(self._facts.declared_type(declaration), self._substitution)
        return self.convert(self.value(declaration.value), declared)

    def convert(self, value: Value | None, wanted: types.Type) -> Value | None:
        """Return a value as one of a type: integers are reduced, lists become structs."""
        if isinstance(value, int) and not isinstance(value, bool):
            return wrap(value, wanted)
        if isinstance(wanted, types.Struct) and isinstance(value, list | dict):
            parameters = struct_substitution(wanted.declaration, wanted.arguments)
            declared = {f.name: self._facts.declared_type(f) for f in wanted.declaration.fields}
            fields = {name: types.substitute(each, parameters) for name, each in declared.items()}
            named = dict(zip(fields, value, strict=False)) if isinstance(value, list) else value
            converted = {name: self.convert(named[name], fields[name]) for name in fields if name in named}
            return {name: each for name, each in converted.items() if each is not None}
        if isinstance(wanted, types.Tuple | types.List | types.Stack) and isinstance(value, list):
            elements = wanted.elements if isinstance(wanted, types.Tuple) else (wanted.element,) * len(value)
            pairs = zip(value, elements, strict=False)
            return [each for each in (self.convert(v, t) for v, t in pairs) if each is not None]
        return value

    def _member(self, expression: tree.Member) -> Value | None:
        found = self._facts.types.get(expression)
        declaration = self._facts.references.get(expression)
        if isinstance(declaration, tree.EnumMember):
            if (
                isinstance(found, types.Enum)
                and found.underlying is not None
                and declaration.value is not None
            ):
                value = self.value(declaration.value)
                return wrap(value, found.underlying) if isinstance(value, int) else None
            return MemberValue(found or types.UNKNOWN, declaration.name)
        base_type = self.type_of(expression.base)
        if isinstance(base_type, types.Stack) and expression.name == "size":
            return base_type.size
        base = self.value(expression.base)
        return base.get(expression.name) if isinstance(base, dict) else None

    def _unary(self, expression: tree.Unary) -> Value | None:
        value = self.value(expression.operand)
        if value is None:
            return None
        if expression.operator == "!":
            return not value
        if not isinstance(value, int):
            return None
        result = {"-": -value, "+": value, "~": ~value}[expression.operator]
        return wrap(result, self.type_of(expression))

    def _binary(self, expression: tree.Binary) -> Value | None:
        operator = expression.operator
        left = self.value(expression.left)
        if operator in ("&&", "||") and isinstance(left, bool):
            return left if left == (operator == "||") else self.value(expression.right)
        right = self.value(expression.right)
        if left is None or right is None:
            return None
        left_type, right_type = self.type_of(expression.left), self.type_of(expression.right)
        if left_type == types.INT and isinstance(left, int) and operator not in ("<<", ">>"):
            left = wrap(left, right_type)
        if right_type == types.INT and isinstance(right, int) and operator not in ("<<", ">>", "++"):
            right = wrap(right, left_type)
        if operator == "++" and isinstance(left, str) and isinstance(right, str):
            return left + right
        if operator in ("==", "!="):
            return (left == right) == (operator == "==")
        if not isinstance(left, int) or not isinstance(right, int):
            return None
        if operator in COMPARISONS:
            return COMPARISONS[operator](left, right)
        if operator == "++":
            if not isinstance(right_type, types.Bits):
                return None
            return wrap(
                left << right_type.width | (right & ((1 << right_type.width) - 1)), self.type_of(expression)
            )
        return compute(operator, left, right, self.type_of(expression), expression)

    def _cast(self, expression: tree.Cast) -> Value | None:
        value = self.value(expression.operand)
        wanted = types.substitute(self._facts.declared_type(expression), self._substitution)
        if wanted == types.BOOL and isinstance(value, int):
            return bool(value)
        if isinstance(value, bool) and isinstance(types.representation(wanted), types.Bits):
            return int(value)
        return self.convert(value, wanted)

    def _slice(self, expression: tree.Slice) -> Value | None:
        base = self.value(expression.base)
        low = self.value(expression.low)
        found = self.type_of(expression)
        if isinstance(base, int) and isinstance(low, int) and isinstance(found, types.Bits):
            return (base >> low) & ((1 << found.width) - 1)
        return None

    def _call(self, expression: tree.Call) -> Value | None:
        target = self._facts.calls.get(expression)
        if target is not None and target.kind == "function" and target.name == "static_assert":
            return self._static_assert(expression, target)
        if target is None or target.kind != "size" or target.type is None:
            return None
        given = types.substitute(target.type, self._substitution)
        bits = size_bits(given, self._facts, is_maximum=target.name.startswith("max"))
        return -(-bits // 8) if target.name.endswith("Bytes") else bits

    def _static_assert(self, expression: tree.Call, target: CallTarget) -> Value | None:
        condition, *message = [
            each.value for each in target.arguments if each is not None and each.value is not None
        ]
        holds = self.value(condition)
        if holds is False:
            text = self.value(message[0]) if message else "the condition of `static_assert` is false"
            raise SourceError(expression, str(text))
        return holds


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def compute(operator: str, left: int, right: int, given: types.Type, node: tree.Node) -> int:
    """Return the result of an arithmetic operator on constants of a type."""
    if operator in ("/", "%"):
        if right == 0:
            raise SourceError(node, f"expected a divisor other than 0 of `{operator}`")
        if left < 0 or right < 0:
            raise SourceError(node, f"expected numbers of at least 0 around `{operator}`")
        return left // right if operator == "/" else left % right
    if operator in ("<<", ">>"):
        if right < 0:
            raise SourceError(node, f"expected a number of at least 0 to shift by, got {right}")
        width = given.width if isinstance(given, types.Bits) else MAX_CONSTANT_BITS
        if operator == ">>":
            return left >> min(right, max(width, left.bit_length() + 1))
        if right >= width:
            if given == types.INT:
                raise SourceError(node, f"expected a shift by less than {width} bits, got {right}")
            return 0
        return wrap(left << right, given)
    if operator in ("|+|", "|-|") and isinstance(given, types.Bits):
        low = -(1 << (given.width - 1)) if given.signed else 0
        high = (1 << (given.width - given.signed)) - 1
        return min(max(left + right if operator == "|+|" else left - right, low), high)
    results: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "&": lambda a, b: a & b,
        "|": lambda a, b: a | b,
        "^": lambda a, b: a ^ b,
    }
    result = results[operator](left, right)
    if result.bit_length() > MAX_CONSTANT_BITS:
        raise SourceError(node, f"expected a constant of at most {MAX_CONSTANT_BITS} bits")
    return wrap(result, given)


def size_bits(given: types.Type, facts: Facts, is_maximum: bool = False) -> int:
    """Return the bits of a type; those of a varbit only for the maximum (specification, §9.1)."""
    match types.representation(given):
        case types.Bits(width, _):
            return width
        case types.Varbit(width):
            return width if is_maximum else 0
        case types.Struct() as struct:
            key = struct, is_maximum
            if key not in facts.sizes:
                facts.sizes[key] = _struct_bits(struct, facts, is_maximum)
            return facts.sizes[key]
        case types.Stack(element, size):
            return size * size_bits(element, facts, is_maximum)
        case types.Tuple(elements):
            return sum(size_bits(element, facts, is_maximum) for element in elements)
        case types.BOOL:
            return 1
    return 0


def _struct_bits(struct: types.Struct, facts: Facts, is_maximum: bool) -> int:
    parameters = struct_substitution(struct.declaration, struct.arguments)
    sizes = [
        size_bits(types.substitute(facts.declared_type(field), parameters), facts, is_maximum)
        for field in struct.declaration.fields
    ]
    if struct.kind == "header_union":
        return (max if is_maximum else min)(sizes, default=0)
    return sum(sizes)


def struct_substitution(
    declaration: tree.Struct | tree.Extern | tree.Control | tree.Parser | tree.Package,
    arguments: tuple[types.Type, ...],
) -> dict[types.Variable, types.Type]:
    names = [types.Variable(name, declaration) for name in declaration.type_parameters]
    return dict(zip(names, arguments, strict=False))
