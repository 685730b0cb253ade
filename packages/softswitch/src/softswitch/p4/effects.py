"""What expressions and statements may change, and what they mention."""

from __future__ import annotations

from softswitch.p4 import tree
from softswitch.p4.frames import Frame

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


def assigned_declarations(node: object, frame: Frame) -> set[tree.Declaration]:
    """Return the variables and parameters to which statements may assign, by assignments and by calls."""
    found: set[tree.Declaration] = set()
    stack: list[object] = [node]
    while stack:
        each = stack.pop()
        match each:
            case tree.Assignment(target=target):
                found |= _roots(target, frame)
                stack.append(each.value)
            case tree.Call():
                called = frame.facts.calls.get(each)
                if called is not None:
                    for parameter, argument in zip(called.parameters, called.arguments, strict=False):
                        if (
                            argument is not None
                            and argument.value is not None
                            and parameter.direction in ("out", "inout")
                        ):
                            found |= _roots(argument.value, frame)
                    if called.kind == "builtin" and called.receiver is not None and called.name != "isValid":
                        found |= _roots(called.receiver, frame)
                    if isinstance(called.declaration, tree.Action):
                        stack.append(called.declaration.body)
                    elif isinstance(called.declaration, tree.Table):
                        for reference in called.declaration.actions:
                            for argument in reference.arguments:
                                found |= (
                                    _roots(argument.value, frame) if argument.value is not None else set()
                                )
                            stack.append(getattr(frame.facts.references[reference], "body", None))
                stack += [argument.value for argument in each.arguments]
            case tree.ForIn():
                found |= {frame.facts.references[each]} if each.type is None else set()
                stack += [each.body, each.collection]
            case list():
                stack += each
            case tree.Node():
                stack += [getattr(each, name) for name in _slots(type(each))]
    return found


def mentioned_declarations(node: object, frame: Frame) -> set[tree.Declaration]:
    """Return the variables and parameters that statements name, and those in actions that they call."""
    found: set[tree.Declaration] = set()
    stack: list[object] = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack += each
        elif isinstance(each, tree.Name):
            if (declaration := frame.facts.references.get(each)) is not None and declaration not in found:
                found.add(declaration)
                if isinstance(declaration, tree.Action):
                    stack.append(declaration.body)
        elif isinstance(each, tree.Node):
            stack += [getattr(each, name) for name in _slots(type(each))]
    return found


def _slots(kind: type) -> list[str]:
    return [
        name for parent in kind.__mro__ for name in getattr(parent, "__slots__", ()) if name != "position"
    ]


def _roots(expression: tree.Expression, frame: Frame) -> set[tree.Declaration]:
    while isinstance(expression, tree.Member | tree.Index | tree.Slice):
        expression = expression.base
    if isinstance(expression, tree.Name) and (found := frame.facts.references.get(expression)) is not None:
        return {found}
    return set()
