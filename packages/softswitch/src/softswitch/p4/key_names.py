"""Names of the parts of a table's key to the control plane."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.lexer import integer_base
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
        return _number_text(value, _base_of(expression, facts))
    raise SourceError(expression, "expected `@name(...)` after this key, whose expression is no name")


def _base_of(expression: tree.Expression, facts: Facts) -> int:
    """Return the base in which a constant is written where its value comes from."""
    match expression:
        case tree.Integer(text=text) if text:
            return integer_base(text)
        case tree.Name() if isinstance(found := facts.references.get(expression), tree.Constant):
            return _base_of(found.value, facts)
        case tree.Cast(operand=operand):
            return _base_of(operand, facts)
        case tree.Binary(left=left):
            return _base_of(left, facts)
    return 10


def _number_text(value: int, base: int) -> str:
    sign, digits = "-" if value < 0 else "", abs(value)
    return sign + {2: f"0b{digits:b}", 8: f"0o{digits:o}", 16: f"0x{digits:x}"}.get(base, str(digits))


def _member_name(expression: tree.Member, facts: Facts) -> str:
    """Return the name of a field, which `@name` may change."""
    base = facts.types.get(expression.base)
    if isinstance(base, types.Struct):
        for field in base.declaration.fields:
            if field.name == expression.name and (given := field.annotation("name")) is not None:
                return given.text
    return expression.name
