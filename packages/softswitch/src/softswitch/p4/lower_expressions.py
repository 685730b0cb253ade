"""Lowering of expressions: to expressions on fields, and statements before them where they have effects."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.constants import MemberValue, Value, wrap
from softswitch.p4.diagnostics import SourceError, Sources
from softswitch.p4.flow import Branch
from softswitch.p4.frames import Frame
from softswitch.p4.objects import Elaborator
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import Facts
from softswitch.p4.storage import Storage
from softswitch.p4.unify import fields_of


class ExpressionLowering:
    def __init__(self, facts: Facts, sources: Sources) -> None:
        self.facts, self.sources = facts, sources
        self.storage = Storage(facts)
        self.elaborator = Elaborator(facts)

    def lower_call(self, call: tree.Call, frame: Frame, wanted: types.Type | None = None) -> Operand | None:
        raise NotImplementedError

    # -- constants

    def constant_operand(self, value: Value, given: types.Type, node: tree.Node) -> Operand:
        """Return a value that is known as an operand of a type."""
        base = types.base_of(given)
        match value:
            case bool():
                return Scalar(ir.Constant(int(value)), given)
            case int():
                return Scalar(ir.Constant(wrap(value, given)), given)
            case str():
                return operands.Text(value)
            case MemberValue():
                return Scalar(ir.Constant(self.code_of(value)), given)
            case list():
                elements = self.element_types(base, len(value), node)
                pairs = zip(value, elements, strict=False)
                made = {name: self.constant_operand(each, kind, node) for each, (name, kind) in pairs}
                return operands.Struct(made, given)
            case dict():
                fields = fields_of(base, self.facts)
                made = {
                    name: self.constant_operand(each, fields.get(name, types.UNKNOWN), node)
                    for name, each in value.items()
                }
                return (
                    operands.HeaderValue(made, given)
                    if types.is_header(base)
                    else operands.Struct(made, given)
                )
        raise SourceError(node.position, f"expected a value, got {value!r}")

    def element_types(self, given: types.Type, count: int, node: tree.Node) -> list[tuple[str, types.Type]]:
        match given:
            case types.Tuple(elements):
                return [(f"f{i}", each) for i, each in enumerate(elements)]
            case types.List(element) | types.Stack(element):
                return [(f"f{i}", element) for i in range(count)]
        if isinstance(given, types.Struct | types.StructValue):
            return list(fields_of(given, self.facts).items())
        raise SourceError(node.position, f"expected a struct or a tuple, got {given}")

    def code_of(self, member: MemberValue) -> int:
        """Return the number by which the switch knows an error or a member of an enum."""
        given = types.base_of(member.type)
        if given == types.ERROR:
            return self.facts.errors.index(member.name)
        assert isinstance(given, types.Enum)
        return [each.name for each in given.declaration.members].index(member.name)

    # -- operands

    def scalar(
        self, expression: tree.Expression, frame: Frame, wanted: types.Type | None = None
    ) -> ir.Expression:
        """Return the expression of a number, bool, enum or error, converted to the wanted type."""
        operand = self.lower(expression, frame, wanted)
        if not isinstance(operand, Scalar):
            found = frame.type_of(expression)
            raise SourceError(
                expression.position, f"expected a number or a bool here, got a value of type {found}"
            )
        return self.stored(operand, frame, expression)

    def stored(self, operand: Scalar, frame: Frame, node: tree.Node) -> ir.Expression:
        """Return the expression of a scalar; bits of the packet are stored: BMv2's expressions have none."""
        if isinstance(operand.expression, ir.Lookahead):
            return self.saved(operand, frame, node)
        return operand.expression

    def lower(self, expression: tree.Expression, frame: Frame, wanted: types.Type | None = None) -> Operand:
        """Return what an expression denotes; its effects are emitted to the frame."""
        found = frame.type_of(expression)
        if found == types.INT and wanted is not None and types.representation(wanted) != types.INT:
            value = frame.evaluator.value(expression)
            if isinstance(value, int):
                return Scalar(ir.Constant(wrap(int(value), wanted)), wanted)
        operand = self._lower(expression, frame, found, wanted)
        if wanted is not None and isinstance(operand, Scalar) and operand.type == types.INT:
            return Scalar(arithmetic.wrapped(operand.expression, wanted), wanted)
        return operand

    def _lower(
        self, expression: tree.Expression, frame: Frame, found: types.Type, wanted: types.Type | None
    ) -> Operand:
        match expression:
            case tree.Integer() | tree.Boolean() | tree.String():
                value = frame.evaluator.value(expression)
                assert value is not None
                return self.constant_operand(value, found, expression)
            case tree.Name():
                return self._name(expression, frame)
            case tree.Member():
                return self._member(expression, frame, found)
            case tree.Index():
                return self._index(expression, frame)
            case tree.Slice():
                return self._slice(expression, frame, found)
            case tree.Unary(operator=operator, operand=inner):
                lowered = self.scalar(inner, frame, found if found != types.INT else None)
                return Scalar(arithmetic.unary(operator, lowered, found), found)
            case tree.Binary():
                return self._binary(expression, frame, found)
            case tree.Ternary():
                return self._ternary(expression, frame, wanted or found)
            case tree.Cast(operand=inner):
                return self._cast(inner, frame, frame.declared(expression))
            case tree.Call():
                operand = self.lower_call(expression, frame, wanted)
                if operand is None:
                    raise SourceError(expression.position, "expected a value, this call returns none")
                return operand
            case tree.ListExpression() | tree.StructExpression():
                return self._structure(expression, frame, wanted if wanted is not None else found)
            case tree.InvalidHeader():
                return self.default_value(wanted or found, expression)
            case tree.Default(text="..."):
                return self.default_value(wanted or found, expression)
        raise SourceError(expression.position, "expected a value")

    def _name(self, expression: tree.Name, frame: Frame) -> Operand:
        declaration = frame.facts.references.get(expression)
        bound = frame.bindings.get(declaration) if declaration is not None else None
        if isinstance(bound, Operand):
            return bound
        value = frame.evaluator.value(expression)
        if value is None:
            raise SourceError(expression.position, f"expected a value, got `{expression.name}`")
        assert declaration is not None
        return self.constant_operand(value, frame.declared(declaration), expression)

    def _member(self, expression: tree.Member, frame: Frame, found: types.Type) -> Operand:
        if isinstance(frame.facts.references.get(expression), tree.EnumMember):
            value = frame.evaluator.value(expression)
            assert value is not None
            return self.constant_operand(value, found, expression)
        name = expression.name
        base_type = types.base_of(frame.type_of(expression.base))
        if isinstance(base_type, types.ApplyResult):
            return self.lower_hit(expression, frame)
        base = self.lower(expression.base, frame)
        if frame.body == "parser" and isinstance(expression.base, tree.Call):
            self._look_to_end(base, frame, expression)
        match base:
            case operands.Stack():
                return self._stack_member(base, name, expression)
            case operands.Header():
                return self.storage.field_of(base, name, expression)
            case operands.Union(members):
                return members[name]
            case operands.Struct(fields):
                return fields[name]
            case operands.HeaderValue(fields) if fields is not None:
                return fields[name]
            case operands.HeaderValue():
                return self.default_value(found, expression)
        raise SourceError(expression.position, f"expected a struct or a header before `.{name}`")

    def _look_to_end(self, operand: Operand, frame: Frame, node: tree.Node) -> None:
        """Read the last part of what a lookahead returns: all of it has to be in the packet."""
        while isinstance(operand, operands.Struct | operands.HeaderValue) and operand.fields:
            operand = list(operand.fields.values())[-1]
        if isinstance(operand, Scalar) and isinstance(operand.expression, ir.Lookahead):
            self.saved(operand, frame, node)

    def lower_hit(self, expression: tree.Member, frame: Frame) -> Operand:
        raise NotImplementedError

    def _stack_member(self, stack: operands.Stack, name: str, node: tree.Node) -> Operand:
        if name == "size":
            return Scalar(ir.Constant(stack.type.size), types.INT)
        if not stack.stacks:
            raise SourceError(node.position, f"expected a header stack before `.{name}`")
        last = ir.LastIndex(stack.stacks[0])
        if name == "lastIndex":
            return Scalar(arithmetic.wrapped(last, types.Bits(32)), types.Bits(32))
        index: ir.Expression = last
        if name == "next":
            index = arithmetic.wrapped(ir.Binary(ir.Op.ADD, last, ir.Constant(1)), types.Bits(32))
        return self._element(stack, index, node)

    def _element(self, stack: operands.Stack, index: ir.Expression, node: tree.Node) -> Operand:
        """Return the element of a stack at a position that is known later."""
        first = stack.elements[0]
        if isinstance(first, operands.Header):
            return operands.Header(ir.Element(stack.stacks[0], index), stack.type.element)
        if isinstance(first, operands.Union):
            members = {
                name: operands.Header(ir.Element(position, _index_in(position, index)), member.type)
                for (name, member), position in zip(first.members.items(), stack.stacks, strict=True)
            }
            return operands.Union(members, stack.type.element, -1)
        raise SourceError(node.position, "expected a constant index of an array that is no header stack")

    def _index(self, expression: tree.Index, frame: Frame) -> Operand:
        base = self.lower(expression.base, frame)
        value = frame.evaluator.value(expression.index)
        if isinstance(base, operands.Struct):
            assert isinstance(value, int)
            return list(base.fields.values())[value]
        if not isinstance(base, operands.Stack):
            raise SourceError(expression.position, "expected a header stack or a tuple before `[`")
        index = (
            ir.Constant(value)
            if isinstance(value, int)
            else self.scalar(expression.index, frame, types.Bits(32))
        )
        if isinstance(index, ir.Constant):
            if 0 <= index.value < len(base.elements):
                return base.elements[index.value]
            raise SourceError(
                expression.position, f"expected an index below {len(base.elements)}, got {index.value}"
            )
        return self._element(base, index, expression)

    def slice_bounds(self, expression: tree.Slice, frame: Frame) -> tuple[int, int]:
        low = frame.evaluator.integer(expression.low)
        if expression.high is not None:
            return frame.evaluator.integer(expression.high), low
        assert expression.width is not None
        return low + frame.evaluator.integer(expression.width) - 1, low

    def _slice(self, expression: tree.Slice, frame: Frame, found: types.Type) -> Operand:
        base = self.scalar(expression.base, frame)
        if expression.width is not None and frame.evaluator.value(expression.low) is None:
            low_value = self.scalar(expression.low, frame)
            shifted = ir.Binary(ir.Op.SHR, base, low_value)
            return Scalar(arithmetic.wrapped(shifted, found), found)
        high, low = self.slice_bounds(expression, frame)
        return Scalar(arithmetic.slice_of(base, high, low), found)

    # -- operators

    def _binary(self, expression: tree.Binary, frame: Frame, found: types.Type) -> Operand:
        operator = expression.operator
        if found == types.INT:
            value = frame.evaluator.value(expression)
            if isinstance(value, int):
                return Scalar(ir.Constant(value), found)
        if operator in ("&&", "||"):
            return Scalar(self._logical(expression, frame), types.BOOL)
        left_type, right_type = frame.type_of(expression.left), frame.type_of(expression.right)
        if operator in ("<<", ">>"):
            left = self.ordered(expression.left, expression.right, frame, found)
            right = self.scalar(expression.right, frame, types.Bits(32) if right_type == types.INT else None)
            return Scalar(arithmetic.binary(operator, left, right, found, expression), found)
        if operator == "++":
            left = self.ordered(expression.left, expression.right, frame, None)
            right = self.scalar(expression.right, frame)
            left_bits, right_bits = types.representation(left_type), types.representation(right_type)
            assert isinstance(left_bits, types.Bits)
            assert isinstance(right_bits, types.Bits)
            return Scalar(arithmetic.concatenation(left, right, left_bits, right_bits), found)
        operand_type = right_type if left_type == types.INT else left_type
        if isinstance(operand_type, types.Tuple | types.StructValue):
            operand_type = right_type
        if operator in ("==", "!="):
            left_operand = self.ordered_operand(expression.left, expression.right, frame, operand_type)
            right_operand = self.lower(expression.right, frame, operand_type)
            if isinstance(left_operand, Scalar):
                left_operand = Scalar(self.stored(left_operand, frame, expression), left_operand.type)
            if isinstance(right_operand, Scalar):
                right_operand = Scalar(self.stored(right_operand, frame, expression), right_operand.type)
            equal = self.equal(left_operand, right_operand, expression)
            return Scalar(equal if operator == "==" else arithmetic.negation(equal), types.BOOL)
        left = self.ordered(expression.left, expression.right, frame, operand_type)
        right = self.scalar(expression.right, frame, operand_type)
        result_type = types.representation(found if found != types.BOOL else operand_type)
        return Scalar(arithmetic.binary(operator, left, right, result_type, expression), found)

    def _logical(self, expression: tree.Binary, frame: Frame) -> ir.Expression:
        """Lower `&&` or `||`; the right operand's effects, if it has some, come after a branch."""
        left = self.scalar(expression.left, frame)
        is_and = expression.operator == "&&"
        if isinstance(left, ir.Constant):
            return self.scalar(expression.right, frame) if bool(left.value) == is_and else left
        if not has_effects(expression.right, frame):
            return arithmetic.logical(expression.operator, left, self.scalar(expression.right, frame))
        result = self.storage.scalar(types.BOOL, "tmp", expression)
        frame.emit(ir.Assign(result, left), expression.position)
        branch = Branch(result, expression.position, "")
        frame.items.append(branch)
        inner = frame.within(branch.then if is_and else branch.otherwise)
        inner.emit(ir.Assign(result, self.scalar(expression.right, inner)), expression.position)
        return result

    def ordered_operand(
        self, expression: tree.Expression, following: tree.Expression, frame: Frame, wanted: types.Type | None
    ) -> Operand:
        """Lower an operand; if what follows has effects, its value is saved before."""
        operand = self.lower(expression, frame, wanted)
        return self.stable_copy(operand, frame, expression) if has_effects(following, frame) else operand

    def ordered(
        self, expression: tree.Expression, following: tree.Expression, frame: Frame, wanted: types.Type | None
    ) -> ir.Expression:
        operand = self.ordered_operand(expression, following, frame, wanted)
        if not isinstance(operand, Scalar):
            raise SourceError(expression.position, f"expected a number, got {frame.type_of(expression)}")
        return operand.expression

    def saved(self, operand: Scalar, frame: Frame, node: tree.Node) -> ir.FieldRef:
        """Return a new field that holds the value."""
        field = self.storage.scalar(operand.type, "tmp", node)
        frame.emit(ir.Assign(field, operand.expression), node.position)
        return field

    def stable_copy(self, operand: Operand, frame: Frame, node: tree.Node) -> Operand:
        """Return an operand that stays what it is now, a copy unless it is a constant."""
        if isinstance(operand, Scalar):
            return operand if operand.is_constant else Scalar(self.saved(operand, frame, node), operand.type)
        if isinstance(operand, operands.Text):
            return operand
        copy = self.storage.make(operand.type, "tmp", node)
        self.assign(copy, operand, frame, node)
        return copy

    def _ternary(self, expression: tree.Ternary, frame: Frame, wanted: types.Type) -> Operand:
        condition = self.scalar(expression.condition, frame)
        if isinstance(condition, ir.Constant):
            return self.lower(expression.left if condition.value else expression.right, frame, wanted)
        branches = (expression.left, expression.right)
        if not any(has_effects(each, frame) for each in branches):
            left, right = (self.lower(each, frame, wanted) for each in branches)
            if (
                isinstance(left, Scalar)
                and isinstance(right, Scalar)
                and not isinstance(wanted, types.Varbit)
            ):
                given = left.type if left.type != types.INT else right.type
                return Scalar(ir.Ternary(condition, left.expression, right.expression), given)
        result = self.storage.make(wanted, "tmp", expression)
        branch = Branch(condition, expression.position, "")
        frame.items.append(branch)
        for each, items in zip(branches, (branch.then, branch.otherwise), strict=True):
            inner = frame.within(items)
            self.assign(result, self.lower(each, inner, wanted), inner, each)
        return result

    def _cast(self, inner: tree.Expression, frame: Frame, wanted: types.Type) -> Operand:
        base = types.base_of(wanted)
        if isinstance(base, types.Struct | types.Tuple | types.Stack):
            return self.lower(inner, frame, wanted)
        found = frame.type_of(inner)
        operand = self.lower(inner, frame, wanted if found == types.INT else None)
        if not isinstance(operand, Scalar):
            raise SourceError(inner.position, f"expected a number or a bool, got {found}")
        return Scalar(arithmetic.converted(self.stored(operand, frame, inner), operand.type, wanted), wanted)

    # -- structures

    def _structure(
        self, expression: tree.ListExpression | tree.StructExpression, frame: Frame, wanted: types.Type
    ) -> Operand:
        base = types.base_of(wanted)
        if isinstance(expression, tree.ListExpression):
            kinds = self.element_types(
                base, max(len(expression.elements), getattr(base, "size", 0)), expression
            )
            given = [(name, each) for (name, _), each in zip(kinds, expression.elements, strict=False)]
        else:
            kinds = list(fields_of(base, self.facts).items())
            given = [(each.name, each.value) for each in expression.fields]
        wanted_types = dict(kinds)
        made: dict[str, Operand] = {}
        for i, (name, value) in enumerate(given):
            operand = self.lower(value, frame, wanted_types[name])
            is_followed = any(has_effects(later, frame) for _, later in given[i + 1 :])
            made[name] = self.stable_copy(operand, frame, value) if is_followed else operand
        for name, kind in kinds:
            if name not in made and (expression.has_rest or isinstance(base, types.Stack)):
                made[name] = self.default_value(kind, expression)
        ordered = {name: made[name] for name, _ in kinds if name in made}
        if types.is_header(base):
            return operands.HeaderValue(ordered, wanted)
        return operands.Struct(ordered, wanted)

    def default_value(self, given: types.Type, node: tree.Node) -> Operand:
        """Return the default value of a type (specification, §7.3): zeros, and invalid headers."""
        base = types.base_of(given)
        match base:
            case types.Struct(kind="header" | "header_union"):
                return operands.HeaderValue(None, given)
            case types.Struct() | types.StructValue():
                fields = fields_of(base, self.facts)
                return operands.Struct({n: self.default_value(t, node) for n, t in fields.items()}, given)
            case types.Tuple(elements):
                values = {f"f{i}": self.default_value(t, node) for i, t in enumerate(elements)}
                return operands.Struct(values, given)
            case types.Stack(element, size):
                return operands.Struct(
                    {f"f{i}": self.default_value(element, node) for i in range(size)}, given
                )
        return Scalar(ir.Constant(0), given)

    def equal(self, left: Operand, right: Operand, node: tree.Node) -> ir.Expression:
        """Return whether two operands are equal, part by part (specification, §8.17)."""
        match left, right:
            case Scalar(), Scalar():
                return arithmetic.binary("==", left.expression, right.expression, types.BOOL, node)
            case ((operands.Header() | operands.HeaderValue()), (operands.Header() | operands.HeaderValue())):
                valid, other = self.validity(left, node), self.validity(right, node)
                parts = zip(self.parts(left, node), self.parts(right, node), strict=True)
                same = arithmetic.all_of([valid, other, *(self.equal(a, b, node) for a, b in parts)])
                both_invalid = arithmetic.logical(
                    "&&", arithmetic.negation(valid), arithmetic.negation(other)
                )
                return arithmetic.logical("||", both_invalid, same)
        pairs = list(zip(self.parts(left, node), self.parts(right, node), strict=True))
        return arithmetic.all_of([self.equal(a, b, node) for a, b in pairs])

    def parts(self, operand: Operand, node: tree.Node) -> list[Operand]:
        """Return the fields of a struct or header, the members of a union, the elements of a stack."""
        match operand:
            case operands.Struct(fields):
                return list(fields.values())
            case operands.Union(members):
                return list(members.values())
            case operands.Stack(elements):
                return list(elements)
            case operands.Header():
                names = fields_of(types.base_of(operand.type), self.facts)
                return [self.storage.field_of(operand, name, node) for name in names]
            case operands.HeaderValue(fields):
                if fields is not None:
                    return list(fields.values())
                given = fields_of(types.base_of(operand.type), self.facts)
                return [self.default_value(each, node) for each in given.values()]
        raise SourceError(node.position, "expected a value with parts")

    def validity(self, header: Operand, node: tree.Node) -> ir.Expression:
        """Return whether a header is valid, or any member of a union."""
        match header:
            case operands.HeaderValue(fields):
                return ir.Constant(int(fields is not None))
            case operands.Union(members):
                return arithmetic.any_of([self.validity(each, node) for each in members.values()])
            case operands.Header(reference) if isinstance(reference, int):
                return ir.IsValid(reference)
            case operands.Header(ir.Element(stack, index)):
                headers = self.storage.stacks[stack].headers
                return arithmetic.any_of(
                    arithmetic.logical("&&", ir.Binary(ir.Op.EQ, index, ir.Constant(i)), ir.IsValid(each))
                    for i, each in enumerate(headers)
                )
        raise SourceError(node.position, "expected a header")

    # -- assignment

    def assign(self, target: Operand, value: Operand, frame: Frame, node: tree.Node) -> None:
        """Emit the assignment of a value to a variable of its type."""
        raise NotImplementedError


def _index_in(stack: int, index: ir.Expression) -> ir.Expression:
    """Return an index in another of the stacks of a stack of unions; all have the same last index."""
    return ir.LastIndex(stack) if isinstance(index, ir.LastIndex) else index


_METHODS_WITHOUT_EFFECTS = ("isValid", "minSizeInBits", "maxSizeInBits", "minSizeInBytes", "maxSizeInBytes")


def has_effects(expression: tree.Expression, frame: Frame) -> bool:
    """Return whether an expression calls something that may change the state, or that needs statements."""
    match expression:
        case tree.Call():
            target = frame.facts.calls.get(expression)
            if target is not None and (target.kind == "size" or target.name in _METHODS_WITHOUT_EFFECTS):
                return isinstance(expression.function, tree.Member) and has_effects(
                    expression.function.base, frame
                )
            return target is None or target.name != "static_assert"
        case tree.Member(base=base):
            return has_effects(base, frame)
        case tree.Index(base=base, index=index):
            return has_effects(base, frame) or has_effects(index, frame)
        case tree.Slice(base=base):
            return has_effects(base, frame)
        case tree.Unary(operand=operand) | tree.Cast(operand=operand):
            return has_effects(operand, frame)
        case tree.Binary(left=left, right=right):
            return has_effects(left, frame) or has_effects(right, frame)
        case tree.Ternary(condition=condition, left=left, right=right):
            return any(has_effects(each, frame) for each in (condition, left, right))
        case tree.ListExpression(elements=elements):
            return any(has_effects(each, frame) for each in elements)
        case tree.StructExpression(fields=fields):
            return any(has_effects(each.value, frame) for each in fields)
    return False
