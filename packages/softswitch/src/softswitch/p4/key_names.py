"""Names of the parts of a table's key to the control plane."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import Facts


def key_name(element: tree.KeyElement, facts: Facts) -> str:
    """Return the `@name` of a part of a key, or its expression as p4c writes it."""
    for annotation in element.annotations:
        if annotation.name == "name":
            return annotation.text
    return _text_of(element.expression, facts)


def _text_of(expression: tree.Expression, facts: Facts) -> str:
    match expression:
        case tree.Name(name=name) if not isinstance(facts.references.get(expression), tree.Constant):
            return name
        case tree.Member(base=base):
            name = _member_name(expression, facts)
            return name[1:] if name.startswith(".") else f"{_text_of(base, facts)}.{name}"
        case tree.Index(base=base, index=index):
            return f"{_text_of(base, facts)}[{_text_of(index, facts)}]"
        case tree.Slice(base=base, high=high, low=low) if high is not None:
            return f"{_text_of(base, facts)}[{_text_of(high, facts)}:{_text_of(low, facts)}]"
        case tree.Binary(operator="&", left=left, right=right):
            return f"{_text_of(left, facts)} & {_text_of(right, facts)}"
        case tree.Call(function=tree.Member(base=base, name="isValid")):
            return f"{_text_of(base, facts)}.$valid$"
    value = Evaluator(facts).value(expression)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    raise SourceError(expression.position, "expected `@name(...)` after this key, whose expression is no name")


def _member_name(expression: tree.Member, facts: Facts) -> str:
    """Return the name of a field, which `@name` may change."""
    base = facts.types.get(expression.base)
    if isinstance(base, types.Struct):
        for field in base.declaration.fields:
            if field.name == expression.name and (given := field.annotation("name")) is not None:
                return given.text
    return expression.name
