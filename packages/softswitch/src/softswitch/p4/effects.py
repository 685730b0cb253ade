"""Find the variables that expressions and statements may change, or mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softswitch.p4 import tree
from softswitch.p4.frames import Frame
from softswitch.p4.scopes import CallTarget
from softswitch.p4.tree_walk import parts

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


def has_index(expression: tree.Expression) -> bool:
    """Return whether an expression has an index of a stack."""
    while isinstance(expression, tree.Member | tree.Index | tree.Slice):
        if isinstance(expression, tree.Index):
            return True
        expression = expression.base
    return False


def assigned_declarations(node: tree.Node, frame: Frame) -> set[tree.Declaration]:
    """Return the variables and parameters to which statements may assign, by assignments and by calls."""
    found: set[tree.Declaration] = set()
    stack = [node]
    while stack:
        match each := stack.pop():
            case tree.Assignment(target=target):
                found |= _roots([target], frame)
                stack.append(each.value)
            case tree.Call():
                if (called := frame.facts.calls.get(each)) is not None:
                    found |= _roots(_changed_arguments(called), frame)
                    stack += _called_bodies(called, frame)
                    if isinstance(called.declaration, tree.Table):
                        arguments = [a for action in called.declaration.actions for a in action.arguments]
                        found |= _roots((a.value for a in arguments), frame)
                stack += [argument.value for argument in each.arguments if argument.value is not None]
            case tree.ForIn():
                found |= {frame.facts.references[each]} if each.type is None else set()
                stack += [each.body, each.collection]
            case _:
                stack += parts(each)
    return found


def _changed_arguments(called: CallTarget) -> Iterator[tree.Expression | None]:
    """Yield the expressions to whose variables a call may assign by its parameters, or by itself."""
    for parameter, argument in zip(called.parameters, called.arguments, strict=False):
        if argument is not None and parameter.direction in ("out", "inout"):
            yield argument.value
    if called.kind == "builtin" and called.name != "isValid":
        yield called.receiver


def _called_bodies(called: CallTarget, frame: Frame) -> Iterator[tree.Block]:
    """Yield the bodies of actions that a call may run."""
    declarations = [called.declaration]
    if isinstance(called.declaration, tree.Table):
        declarations = [frame.facts.references[reference] for reference in called.declaration.actions]
    return (each.body for each in declarations if isinstance(each, tree.Action))


def mentioned_declarations(node: tree.Node, frame: Frame) -> set[tree.Declaration]:
    """Return the variables and parameters that statements name, and those in actions that they call."""
    found: set[tree.Declaration] = set()
    stack = [node]
    while stack:
        each = stack.pop()
        declaration = frame.facts.references.get(each) if isinstance(each, tree.Name) else None
        if declaration is not None and declaration not in found:
            found.add(declaration)
            if isinstance(declaration, tree.Action):
                stack.append(declaration.body)
        stack += parts(each)
    return found


def _roots(expressions: Iterable[tree.Expression | None], frame: Frame) -> set[tree.Declaration]:
    """Return the variables of which expressions are parts."""
    found: set[tree.Declaration] = set()
    for each in expressions:
        while isinstance(each, tree.Member | tree.Index | tree.Slice):
            each = each.base
        if isinstance(each, tree.Name) and (declaration := frame.facts.references.get(each)) is not None:
            found.add(declaration)
    return found
