"""Lowering of expressions: to expressions on fields, and statements before them where they have effects."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.constants import wrap
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.effects import has_effects
from softswitch.p4.flow import Branch, Step
from softswitch.p4.frames import Frame
from softswitch.p4.operand_copies import assign, saved, stable_copy
from softswitch.p4.operand_values import constant_operand, default_value, element_types, equality
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.unify import fields_of
from softswitch.v1model import CoreError


def lower_scalar(
    expression: tree.Expression, frame: Frame, wanted: types.Type | None = None
) -> ir.Expression:
    """Return the expression of a number, bool, enum or error, converted to the wanted type."""
    operand = lower(expression, frame, wanted)
    if not isinstance(operand, Scalar):
        found = frame.type_of(expression)
        raise SourceError(expression, f"expected a number or a bool here, got a value of type {found}")
    return stored(operand, frame, expression)


def stored(operand: Scalar, frame: Frame, node: tree.Node) -> ir.Expression:
    """Return the expression of a scalar; bits of the packet are stored: BMv2's expressions have none."""
    if isinstance(operand.expression, ir.Lookahead):
        return saved(operand, frame, node)
    return operand.expression


def lower(expression: tree.Expression, frame: Frame, wanted: types.Type | None = None) -> Operand:
    """Return what an expression denotes; its effects are emitted to the frame."""
    found = frame.type_of(expression)
    if found == types.INT and wanted is not None and types.representation(wanted) != types.INT:
        value = frame.evaluator.value(expression)
        if isinstance(value, int):
            return Scalar(ir.Constant(wrap(int(value), wanted)), wanted)
    operand = _lower(expression, frame, found, wanted)
    if wanted is not None and isinstance(operand, Scalar) and operand.type == types.INT:
        return Scalar(arithmetic.wrapped(operand.expression, wanted), wanted)
    return operand


def _lower(
    expression: tree.Expression, frame: Frame, found: types.Type, wanted: types.Type | None
) -> Operand:
    match expression:
        case tree.Integer() | tree.Boolean() | tree.String():
            value = frame.evaluator.value(expression)
            assert value is not None
            return constant_operand(value, frame, found, expression)
        case tree.Name():
            return _name(expression, frame)
        case tree.Member():
            return _member(expression, frame, found)
        case tree.Index():
            return _index(expression, frame)
        case tree.Slice():
            return _slice(expression, frame, found)
        case tree.Unary(operator=operator, operand=inner):
            lowered = lower_scalar(inner, frame, found if found != types.INT else None)
            return Scalar(arithmetic.unary(operator, lowered, found), found)
        case tree.Binary():
            return _binary(expression, frame, found)
        case tree.Ternary():
            return _ternary(expression, frame, wanted or found)
        case tree.Cast(operand=inner):
            return _cast(inner, frame, frame.declared(expression))
        case tree.Call():
            operand = frame.nested.call(expression, frame, wanted)
            if operand is None:
                raise SourceError(expression, "expected a value, this call returns none")
            return operand
        case tree.ListExpression() | tree.StructExpression():
            return _structure(expression, frame, wanted if wanted is not None else found)
        case tree.InvalidHeader():
            return default_value(wanted or found, frame, expression)
        case tree.Default(text="..."):
            return default_value(wanted or found, frame, expression)
    raise SourceError(expression, "expected a value")


def _name(expression: tree.Name, frame: Frame) -> Operand:
    declaration = frame.facts.references.get(expression)
    bound = frame.bindings.get(declaration) if declaration is not None else None
    if isinstance(bound, Operand):
        return bound
    value = frame.evaluator.value(expression)
    if value is None:
        raise SourceError(expression, f"expected a value, got `{expression.name}`")
    assert declaration is not None
    return constant_operand(value, frame, frame.declared(declaration), expression)


def _member(expression: tree.Member, frame: Frame, found: types.Type) -> Operand:
    if isinstance(frame.facts.references.get(expression), tree.EnumMember):
        value = frame.evaluator.value(expression)
        assert value is not None
        return constant_operand(value, frame, found, expression)
    name = expression.name
    base_type = types.base_of(frame.type_of(expression.base))
    if isinstance(base_type, types.ApplyResult):
        return lower_hit(expression, frame)
    base = lower(expression.base, frame)
    if frame.body == "parser" and isinstance(expression.base, tree.Call):
        _look_to_end(base, frame, expression)
    match base:
        case operands.Stack():
            return _stack_member(base, name, frame, expression)
        case operands.Header():
            return frame.storage.field_of(base, name, expression)
        case operands.Union(members):
            return members[name]
        case operands.Struct(fields):
            return fields[name]
        case operands.HeaderValue(fields) if fields is not None:
            return fields[name]
        case operands.HeaderValue():
            return default_value(found, frame, expression)
    raise SourceError(expression, f"expected a struct or a header before `.{name}`")


def lower_hit(expression: tree.Member, frame: Frame) -> Operand:
    assert isinstance(expression.base, tree.Call)
    applied = frame.nested.table(expression.base, frame)
    result = frame.storage.scalar(types.BOOL, "$tmp", expression)
    for branch in ("hit", "miss"):
        value = ir.Constant(int(branch == expression.name))
        frame.within(applied.branches.setdefault(branch, [])).emit(
            ir.Assign(result, value), expression.position
        )
    return Scalar(result, types.BOOL)


def _look_to_end(operand: Operand, frame: Frame, node: tree.Node) -> None:
    """Read the last part of what a lookahead returns: all of it has to be in the packet."""
    while isinstance(operand, operands.Struct | operands.HeaderValue) and operand.fields:
        operand = list(operand.fields.values())[-1]
    if isinstance(operand, Scalar) and isinstance(operand.expression, ir.Lookahead):
        saved(operand, frame, node)


def _stack_member(stack: operands.Stack, name: str, frame: Frame, node: tree.Node) -> Operand:
    if name == "size":
        return Scalar(ir.Constant(stack.type.size), types.INT)
    if not stack.stacks:
        raise SourceError(node, f"expected a header stack before `.{name}`")
    last = ir.LastIndex(stack.stacks[0])
    if name == "lastIndex":
        return Scalar(arithmetic.wrapped(last, types.Bits(32)), types.Bits(32))
    index: ir.Expression = last
    if name == "next":
        index = arithmetic.wrapped(ir.Binary(ir.Op.ADD, last, ir.Constant(1)), types.Bits(32))
    else:
        _require_last(stack.stacks[0], frame, node)
    return _element(stack, index, node)


def _require_last(stack: int, frame: Frame, node: tree.Node) -> None:
    """Reject with an error if a stack is empty, unless it has got an element just before."""
    stacks, name = frame.storage.stacks, CoreError.STACK_OUT_OF_BOUNDS.value
    for item in frame.items:
        if isinstance(item, Step) and isinstance(item.statement, ir.Extract):
            extracted = item.statement.stack
            if extracted is not None and stacks[extracted].cursor == stacks[stack].cursor:
                return
    if name in frame.facts.errors:
        empty = ir.Constant((1 << 32) - 1)
        has_last = ir.Binary(ir.Op.NE, arithmetic.wrapped(ir.LastIndex(stack), types.Bits(32)), empty)
        error = ir.Constant(frame.facts.errors.index(name))
        frame.emit(ir.Verify(has_last, error), node.position)


def _element(stack: operands.Stack, index: ir.Expression, node: tree.Node) -> Operand:
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
    raise SourceError(node, "expected a constant index of an array that is no header stack")


def _index_in(stack: int, index: ir.Expression) -> ir.Expression:
    """Return an index in another of the stacks of a stack of unions; all have the same last index."""
    return ir.LastIndex(stack) if isinstance(index, ir.LastIndex) else index


def _index(expression: tree.Index, frame: Frame) -> Operand:
    base = lower(expression.base, frame)
    value = frame.evaluator.value(expression.index)
    if isinstance(base, operands.Struct):
        assert isinstance(value, int)
        return list(base.fields.values())[value]
    if not isinstance(base, operands.Stack):
        raise SourceError(expression, "expected a header stack or a tuple before `[`")
    index = (
        ir.Constant(value)
        if isinstance(value, int)
        else lower_scalar(expression.index, frame, types.Bits(32))
    )
    if isinstance(index, ir.Constant):
        if 0 <= index.value < len(base.elements):
            return base.elements[index.value]
        raise SourceError(expression, f"expected an index below {len(base.elements)}, got {index.value}")
    return _element(base, index, expression)


def slice_bounds(expression: tree.Slice, frame: Frame) -> tuple[int, int]:
    low = frame.evaluator.integer(expression.low)
    if expression.high is not None:
        return frame.evaluator.integer(expression.high), low
    assert expression.width is not None
    return low + frame.evaluator.integer(expression.width) - 1, low


def _slice(expression: tree.Slice, frame: Frame, found: types.Type) -> Operand:
    base = lower_scalar(expression.base, frame)
    if expression.width is not None and frame.evaluator.value(expression.low) is None:
        low_value = lower_scalar(expression.low, frame)
        shifted = ir.Binary(ir.Op.SHR, base, low_value)
        return Scalar(arithmetic.wrapped(shifted, found), found)
    high, low = slice_bounds(expression, frame)
    return Scalar(arithmetic.slice_of(base, high, low), found)


# -- operators


def _binary(expression: tree.Binary, frame: Frame, found: types.Type) -> Operand:
    operator = expression.operator
    if found == types.INT:
        value = frame.evaluator.value(expression)
        if isinstance(value, int):
            return Scalar(ir.Constant(value), found)
    if operator in ("&&", "||"):
        return Scalar(_logical(expression, frame), types.BOOL)
    left_type, right_type = frame.type_of(expression.left), frame.type_of(expression.right)
    if operator in ("<<", ">>"):
        left = ordered(expression.left, expression.right, frame, found)
        right = lower_scalar(expression.right, frame, types.Bits(32) if right_type == types.INT else None)
        return Scalar(arithmetic.binary(operator, left, right, found, expression), found)
    if operator == "++":
        left = ordered(expression.left, expression.right, frame, None)
        right = lower_scalar(expression.right, frame)
        left_bits, right_bits = types.representation(left_type), types.representation(right_type)
        assert isinstance(left_bits, types.Bits)
        assert isinstance(right_bits, types.Bits)
        return Scalar(arithmetic.concatenation(left, right, left_bits, right_bits), found)
    operand_type = right_type if left_type == types.INT else left_type
    if isinstance(operand_type, types.Tuple | types.StructValue):
        operand_type = right_type
    if operator in ("==", "!="):
        left_operand = ordered_operand(expression.left, expression.right, frame, operand_type)
        right_operand = lower(expression.right, frame, operand_type)
        if isinstance(left_operand, Scalar):
            left_operand = Scalar(stored(left_operand, frame, expression), left_operand.type)
        if isinstance(right_operand, Scalar):
            right_operand = Scalar(stored(right_operand, frame, expression), right_operand.type)
        equal = equality(left_operand, frame, right_operand, expression)
        return Scalar(equal if operator == "==" else arithmetic.negation(equal), types.BOOL)
    left = ordered(expression.left, expression.right, frame, operand_type)
    right = lower_scalar(expression.right, frame, operand_type)
    result_type = types.representation(found if found != types.BOOL else operand_type)
    return Scalar(arithmetic.binary(operator, left, right, result_type, expression), found)


def _logical(expression: tree.Binary, frame: Frame) -> ir.Expression:
    """Lower `&&` or `||`; the right operand's effects, if it has some, come after a branch."""
    left = lower_scalar(expression.left, frame)
    is_and = expression.operator == "&&"
    if isinstance(left, ir.Constant):
        return lower_scalar(expression.right, frame) if bool(left.value) == is_and else left
    if not has_effects(expression.right, frame):
        return arithmetic.logical(expression.operator, left, lower_scalar(expression.right, frame))
    result = frame.storage.scalar(types.BOOL, "$tmp", expression)
    frame.emit(ir.Assign(result, left), expression.position)
    branch = Branch(result, expression.position, "")
    frame.items.append(branch)
    inner = frame.within(branch.then if is_and else branch.otherwise)
    inner.emit(ir.Assign(result, lower_scalar(expression.right, inner)), expression.position)
    return result


def ordered_operand(
    expression: tree.Expression, following: tree.Expression, frame: Frame, wanted: types.Type | None
) -> Operand:
    """Lower an operand; if what follows has effects, its value is saved before."""
    operand = lower(expression, frame, wanted)
    return stable_copy(operand, frame, expression) if has_effects(following, frame) else operand


def ordered(
    expression: tree.Expression, following: tree.Expression, frame: Frame, wanted: types.Type | None
) -> ir.Expression:
    operand = ordered_operand(expression, following, frame, wanted)
    if not isinstance(operand, Scalar):
        raise SourceError(expression, f"expected a number, got {frame.type_of(expression)}")
    return operand.expression


def _ternary(expression: tree.Ternary, frame: Frame, wanted: types.Type) -> Operand:
    condition = lower_scalar(expression.condition, frame)
    if isinstance(condition, ir.Constant):
        return lower(expression.left if condition.value else expression.right, frame, wanted)
    branches = (expression.left, expression.right)
    if not any(has_effects(each, frame) for each in branches):
        left, right = (lower(each, frame, wanted) for each in branches)
        if isinstance(left, Scalar) and isinstance(right, Scalar) and not isinstance(wanted, types.Varbit):
            given = left.type if left.type != types.INT else right.type
            return Scalar(ir.Ternary(condition, left.expression, right.expression), given)
    result = frame.storage.make(wanted, "$tmp", expression)
    branch = Branch(condition, expression.position, "")
    frame.items.append(branch)
    for each, items in zip(branches, (branch.then, branch.otherwise), strict=True):
        inner = frame.within(items)
        assign(result, lower(each, inner, wanted), inner, each)
    return result


def _cast(inner: tree.Expression, frame: Frame, wanted: types.Type) -> Operand:
    base = types.base_of(wanted)
    if isinstance(base, types.Struct | types.Tuple | types.Stack):
        return lower(inner, frame, wanted)
    found = frame.type_of(inner)
    operand = lower(inner, frame, wanted if found == types.INT else None)
    if not isinstance(operand, Scalar):
        raise SourceError(inner, f"expected a number or a bool, got {found}")
    return Scalar(arithmetic.converted(stored(operand, frame, inner), operand.type, wanted), wanted)


# -- structures


def _structure(
    expression: tree.ListExpression | tree.StructExpression, frame: Frame, wanted: types.Type
) -> Operand:
    base = types.base_of(wanted)
    if isinstance(expression, tree.ListExpression):
        kinds = element_types(
            base, frame, max(len(expression.elements), getattr(base, "size", 0)), expression
        )
        given = [(name, each) for (name, _), each in zip(kinds, expression.elements, strict=False)]
    else:
        kinds = list(fields_of(base, frame.facts).items())
        given = [(each.name, each.value) for each in expression.fields]
    wanted_types = dict(kinds)
    made: dict[str, Operand] = {}
    for i, (name, value) in enumerate(given):
        operand = lower(value, frame, wanted_types[name])
        is_followed = any(has_effects(later, frame) for _, later in given[i + 1 :])
        made[name] = stable_copy(operand, frame, value) if is_followed else operand
    for name, kind in kinds:
        if name not in made and (expression.has_rest or isinstance(base, types.Stack)):
            made[name] = default_value(kind, frame, expression)
    ordered = {name: made[name] for name, _ in kinds if name in made}
    if types.is_header(base):
        return operands.HeaderValue(ordered, wanted)
    return operands.Struct(ordered, wanted)
