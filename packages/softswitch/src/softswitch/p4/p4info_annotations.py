"""Annotations of a program in its P4Info: as text, as structures, and as documentation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from softswitch.p4 import tree
from softswitch.p4.check_calls import CallChecker
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.expression_parser import ExpressionParser
from softswitch.p4.lexer import Token, TokenKind
from softswitch.p4.scopes import Facts

_DOCUMENTATION = ("brief", "description")
_NAMES_WITH_FIELDS = ("name", "id", *_DOCUMENTATION)
"""Annotations that have fields of their own."""
_LISTS = ("field_list", "synchronous", "command_line")
"""Annotations that p4c prints as lists of expressions, without a space before each comma."""


def fill_annotations(
    message: Any, annotations: tree.Annotations, facts: Facts, ignored: Collection[str] = ()
) -> None:
    """Add annotations to a message of P4Info; structured ones are all kept."""
    for each in annotations:
        if each.is_structured:
            _add_structured(message.structured_annotations.add(), each, facts)
        elif each.name not in _NAMES_WITH_FIELDS and each.name not in ignored:
            message.annotations.append(annotation_text(each))


def fill_documentation(message: Any, annotations: tree.Annotations) -> None:
    for each in annotations:
        if each.name in _DOCUMENTATION and not each.is_structured:
            setattr(message.doc, each.name, "".join(_spelled(token) for token in each.tokens))


def annotation_text(annotation: tree.Annotation) -> str:
    if not annotation.tokens:
        return f"@{annotation.name}"
    text = " ".join(token.text for token in annotation.tokens)
    if annotation.name in _LISTS:
        text = text.replace(" ,", ",")
    return f"@{annotation.name}({text})"


def _spelled(token: Token) -> str:
    """Return a string without its quotes, and with the backslashes in it, as p4c has it."""
    return token.text[1:-1] if token.kind is TokenKind.STRING else token.text


def one_integer(annotation: tree.Annotation) -> int:
    """Return the number of an annotation such as `@id(5)`."""
    if len(annotation.tokens) != 1 or len(annotation.integers) != 1:
        raise SourceError(annotation, f"expected one number in `@{annotation.name}`")
    return annotation.integers[0]


def expression_values(annotation: tree.Annotation, facts: Facts) -> list[int | bool | str]:
    """Return what an annotation such as `@field_list(1, NAME)` has; names are global ones."""
    parser = ExpressionParser(annotation.tokens)
    values = []
    while not _is_at_end(parser):
        values.append(_value(parser.expression(), facts))
        if not _is_at_end(parser):
            parser.expect(",")
    return values


def key_values(annotation: tree.Annotation, facts: Facts) -> dict[str, int | bool | str]:
    """Return what an annotation such as `@pkginfo(name="x", version="1")` has."""
    parser = ExpressionParser(annotation.tokens)
    values: dict[str, int | bool | str] = {}
    while not _is_at_end(parser):
        key = parser.name("a key")
        parser.expect("=")
        values[key.text] = _value(parser.expression(), facts)
        if not _is_at_end(parser):
            parser.expect(",")
    return values


def _is_at_end(parser: ExpressionParser) -> bool:
    return parser.token.kind is TokenKind.END


def _add_structured(message: Any, annotation: tree.Annotation, facts: Facts) -> None:
    message.name = annotation.name
    tokens = annotation.tokens
    if not tokens:
        return
    if len(tokens) > 1 and tokens[0].kind is TokenKind.NAME and tokens[1].text == "=":
        for key, value in key_values(annotation, facts).items():
            pair = message.kv_pair_list.kv_pairs.add(key=key)
            _set_value(pair.value, value, annotation)
        return
    for value in expression_values(annotation, facts):
        _set_value(message.expression_list.expressions.add(), value, annotation)


def _set_value(message: Any, value: int | bool | str, annotation: tree.Annotation) -> None:
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif -(1 << 63) <= value < 1 << 63:
        message.int64_value = value
    else:
        raise SourceError(annotation, f"expected a number of 64 bits in `@{annotation.name}`, got {value}")


def _value(expression: tree.Expression, facts: Facts) -> int | bool | str:
    expressions = CallChecker(facts, SourceFiles()).expressions
    expressions.check(expression, facts.globals)
    value = expressions.evaluator.value(expression)
    if not isinstance(value, int | bool | str):
        raise SourceError(expression, "expected a number, a bool or a string in an annotation")
    return value
