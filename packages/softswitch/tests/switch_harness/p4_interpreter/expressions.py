"""Values of expressions, and the places of l-values (specification, §8)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.scopes import Facts
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.instances import Activation, Bound, ParserReject
from switch_harness.p4_interpreter.values import (
    Cell,
    Fill,
    Header,
    Place,
    Scalar,
    Slice,
    Stack,
    Struct,
    Value,
    reduced,
)

_Wanted = types.Type | None


class Expressions:
    """Evaluates expressions. A value with parts is a copy, so that what runs later does not change it."""

    def __init__(self, facts: Facts, fill: Fill) -> None:
        self.facts, self.fill = facts, fill
        self.globals: dict[tree.Declaration, Bound] = {}

    def call(self, call: tree.Call, activation: Activation, wanted: _Wanted = None) -> Value:
        raise NotImplementedError

    def apply_table(self, call: tree.Call, activation: Activation) -> tuple[bool, str]:
        raise NotImplementedError

    def unary(self, expression: tree.Unary, activation: Activation, wanted: _Wanted) -> Value:
        raise NotImplementedError

    def binary(self, expression: tree.Binary, activation: Activation) -> Value:
        raise NotImplementedError

    def cast(self, expression: tree.Cast, activation: Activation) -> Value:
        raise NotImplementedError

    # -- types and names

    def type_of(self, expression: tree.Expression, activation: Activation) -> types.Type:
        return types.substitute(self.facts.types.get(expression, types.UNKNOWN), activation.substitution)

    def declared(self, node: tree.Node, activation: Activation) -> types.Type:
        return types.substitute(self.facts.declared[node], activation.substitution)

    def bound(self, name: tree.Expression, activation: Activation) -> Bound:
        """Return what a name means: storage, an instance, a packet, or the value of a constant."""
        declaration = self.facts.references[name]
        if (found := activation.find(declaration)) is not None:
            return found.names[declaration]
        at: Activation | None = activation
        while at is not None:
            if at.instance is not None and declaration in at.instance.bindings:
                return at.instance.bindings[declaration]
            at = at.outer
        if declaration in self.globals:
            return self.globals[declaration]
        assert isinstance(declaration, tree.Constant), f"nothing is known of {declaration.name}"
        return self.evaluate(declaration.value, activation, self.declared(declaration, activation))

    # -- places

    def place(self, expression: tree.Expression, activation: Activation) -> Place:
        """Return where an l-value is stored; indices are evaluated now."""
        match expression:
            case tree.Name():
                found = self.bound(expression, activation)
                assert isinstance(found, Cell | Struct | Header | Stack), f"expected a variable, got {found}"
                return found
            case tree.Member(base=base, name=name):
                inner = self.place(base, activation)
                if isinstance(inner, Stack):
                    return self._stack_member(inner, name)
                assert isinstance(inner, Struct | Header)
                return inner.parts[name]
            case tree.Index(base=base, index=index):
                inner = self.place(base, activation)
                at = self.integer(index, activation)
                if isinstance(inner, Struct):
                    return inner.parts[str(at)]
                assert isinstance(inner, Stack)
                return self._element(inner, at)
            case tree.Slice(base=base):
                inner = self.place(base, activation)
                assert isinstance(inner, Cell | Slice)
                bits = types.representation(self.type_of(base, activation))
                assert isinstance(bits, types.Bits)
                high, low = self._bounds(expression, activation)
                return Slice(inner, high, low, bits.width, bits.signed, self.fill)
        raise AssertionError(f"{expression.position.line}: expected an l-value, got {expression}")

    def read(self, place: Place) -> Value:
        """Return the value in a place, a copy if it has parts."""
        if not isinstance(place, Slice):
            return values.load(values.copied(place))
        base = self.defined(self.read(place.base), types.Bits(place.width))
        assert isinstance(base, int)
        return base >> place.low & ((1 << (place.high - place.low + 1)) - 1)

    def _stack_member(self, stack: Stack, name: str) -> Place:
        if name == "next":
            if stack.next_index >= len(stack.elements):
                raise ParserReject("StackOutOfBounds")
            return stack.elements[stack.next_index]
        assert name == "last"
        if not 1 <= stack.next_index <= len(stack.elements):
            raise ParserReject("StackOutOfBounds")
        return stack.elements[stack.next_index - 1]

    def _element(self, stack: Stack, at: int) -> Place:
        if 0 <= at < len(stack.elements):
            return stack.elements[at]
        outside = values.copied(stack.elements[0])
        assert isinstance(outside, Header)
        outside.valid = None
        return outside

    def _bounds(self, expression: tree.Slice, activation: Activation) -> tuple[int, int]:
        low = self.integer(expression.low, activation)
        if expression.high is not None:
            return self.integer(expression.high, activation), low
        assert expression.width is not None
        return low + self.integer(expression.width, activation) - 1, low

    # -- scalars

    def defined(self, value: Value, given: types.Type) -> Scalar:
        """Return a scalar, which is the fill's if it is undefined."""
        if value is not None:
            assert isinstance(value, int | bool | str), value
            return value
        given = types.base_of(given)
        if given == types.BOOL:
            return bool(self.fill.bits(1))
        if given == types.ERROR:
            return self.facts.errors[self.fill.bits(8) % len(self.facts.errors)]
        if isinstance(given, types.Enum) and given.underlying is None:
            members = given.declaration.members
            return members[self.fill.bits(8) % len(members)].name
        bits = types.representation(given)
        assert isinstance(bits, types.Bits), bits
        return reduced(self.fill.bits(bits.width), bits.width, bits.signed)

    def scalar(self, expression: tree.Expression, activation: Activation, wanted: _Wanted = None) -> Scalar:
        given = self.type_of(expression, activation)
        if wanted is not None and given in (types.INT, types.UNKNOWN):
            given = wanted
        return self.defined(self.evaluate(expression, activation, wanted), given)

    def integer(self, expression: tree.Expression, activation: Activation, wanted: _Wanted = None) -> int:
        value = self.scalar(expression, activation, wanted)
        assert isinstance(value, int)
        return value

    def holds(self, expression: tree.Expression, activation: Activation) -> bool:
        return bool(self.scalar(expression, activation, types.BOOL))

    # -- expressions

    def evaluate(self, expression: tree.Expression, activation: Activation, wanted: _Wanted = None) -> Value:
        """Return a value, converted to the type that is wanted; without one, lists become tuples."""
        value = self._evaluate(expression, activation, wanted)
        bits = types.representation(wanted) if wanted is not None else None
        if isinstance(bits, types.Bits) and isinstance(value, int):
            return reduced(value, bits.width, bits.signed)
        return value

    def _evaluate(self, expression: tree.Expression, activation: Activation, wanted: _Wanted) -> Value:
        match expression:
            case tree.Integer(value=value, width=width, is_signed=signed):
                return value if width is None else reduced(value, width, signed)
            case tree.Boolean(value=truth):
                return truth
            case tree.Name():
                found = self.bound(expression, activation)
                if isinstance(found, Cell | Struct | Header | Stack):
                    return values.load(values.copied(found))
                assert found is None or isinstance(found, int | bool | str)
                return found
            case tree.Member():
                return self._member(expression, activation)
            case tree.Index():
                return self._index(expression, activation)
            case tree.Slice(base=base):
                number = self.integer(base, activation)
                high, low = self._bounds(expression, activation)
                return number >> low & ((1 << (high - low + 1)) - 1)
            case tree.Unary():
                return self.unary(expression, activation, wanted)
            case tree.Binary():
                return self.binary(expression, activation)
            case tree.Ternary(condition=condition, left=left, right=right):
                given = self.type_of(expression, activation)
                kind = (
                    wanted
                    if given == types.INT or isinstance(given, types.Tuple | types.StructValue)
                    else given
                )
                return self.evaluate(left if self.holds(condition, activation) else right, activation, kind)
            case tree.Cast():
                return self.cast(expression, activation)
            case tree.Call():
                return self.call(expression, activation, wanted)
            case tree.ListExpression(elements=elements):
                return self._parts({str(i): each for i, each in enumerate(elements)}, activation, wanted)
            case tree.StructExpression(fields=fields):
                return self._parts({each.name: each.value for each in fields}, activation, wanted)
            case tree.InvalidHeader():
                assert wanted is not None
                return values.load(values.uninitialised(wanted, self.facts))
        raise AssertionError(f"{expression.position.line}: expected an expression, got {expression}")

    def _parts(self, given: dict[str, tree.Expression], activation: Activation, wanted: _Wanted) -> Value:
        """Evaluate the parts of a list or of `{a = 1}` in the order in which they are written."""
        kinds: dict[str, types.Type] = {}
        if wanted is not None:
            kinds = values.element_types(wanted, self.facts)
            if given.keys() != kinds.keys() and len(kinds) >= len(given) and "0" in given:
                kinds = dict(zip(given, kinds.values(), strict=False))
        if isinstance(stack := types.base_of(wanted) if wanted else None, types.Stack):
            kinds = dict.fromkeys(given, stack.element)
        found = {name: self.evaluate(each, activation, kinds.get(name)) for name, each in given.items()}
        made = Struct(
            {n: v if isinstance(v, Struct | Header | Stack) else Cell(None, v) for n, v in found.items()}
        )
        if wanted is None or not kinds:
            return made
        return self._assembled(made, wanted, list(kinds))

    def _assembled(self, value: Struct, wanted: types.Type, names: list[str]) -> Value:
        target = values.uninitialised(wanted, self.facts)
        if isinstance(target, Stack):
            for element, part in zip(target.elements, value.parts.values(), strict=False):
                values.store(element, values.load(part))
            return target
        assert isinstance(target, Struct | Header)
        if isinstance(target, Header):
            target.valid = True
        in_order = "0" in value.parts and "0" not in target.parts
        for i, (name, place) in enumerate(target.parts.items()):
            values.store(place, values.load(value.parts[str(i) if in_order else name]))
        return target

    def _member(self, expression: tree.Member, activation: Activation) -> Value:
        member = self.facts.references.get(expression)
        if isinstance(member, tree.EnumMember):
            given = types.base_of(self.type_of(expression, activation))
            if isinstance(given, types.Enum) and given.underlying is not None:
                assert member.value is not None
                return self.evaluate(member.value, activation, given.underlying)
            return member.name
        base, name = expression.base, expression.name
        if isinstance(base, tree.Call) and self.facts.calls[base].kind == "table":
            hit, action = self.apply_table(base, activation)
            return action if name == "action_run" else hit == (name == "hit")
        found = types.base_of(self.type_of(base, activation))
        if isinstance(found, types.Stack) and name == "size":
            return found.size
        value = self.part_of(base, activation)
        if isinstance(value, Stack):
            if name == "lastIndex":
                return value.next_index - 1 if value.next_index else None
            place = self._stack_member(value, name)
            assert not isinstance(place, Slice)
            return values.load(values.copied(place))
        assert isinstance(value, Struct | Header)
        return values.load(values.copied(value.parts[name]))

    def part_of(self, base: tree.Expression, activation: Activation) -> Value:
        """Return what a part is taken of, without a copy if it has a place."""
        if isinstance(base, tree.Name | tree.Member | tree.Index) and self._has_place(base):
            place = self.place(base, activation)
            assert not isinstance(place, Slice)
            return place if not isinstance(place, Cell) else place.value
        return self.evaluate(base, activation)

    def _has_place(self, expression: tree.Expression) -> bool:
        match expression:
            case tree.Name():
                return not isinstance(self.facts.references.get(expression), tree.Constant)
            case tree.Member(base=base) | tree.Index(base=base):
                return self._has_place(base)
        return False

    def _index(self, expression: tree.Index, activation: Activation) -> Value:
        base = self.part_of(expression.base, activation)
        at = self.integer(expression.index, activation, types.Bits(32))
        if isinstance(base, Struct):
            return values.load(values.copied(base.parts[str(at)]))
        assert isinstance(base, Stack)
        place = self._element(base, at)
        assert not isinstance(place, Slice)
        return values.load(values.copied(place))
