"""Annotations: which ones may stand together, and what those of the specification contain (§18.3)."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4 import tree
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.expression_parser import ExpressionParser
from softswitch.p4.lexer import Token, TokenKind
from softswitch.p4.scopes import Facts
from softswitch.p4.tree_walk import parts, walk

_STRINGS = ("name", "deprecated", "noWarn")
_NEED_BODY = ("pkginfo", *_STRINGS)


def check_annotations(program: tree.Program, facts: Facts, sources: SourceFiles) -> None:
    for given in _lists_of_annotations(program):
        structured = {each.name for each in given if each.is_structured}
        for i, annotation in enumerate(given):
            try:
                if annotation.name in structured and any(each.name == annotation.name for each in given[:i]):
                    text = (
                        f"expected one annotation `@{annotation.name}` here, as it has square brackets, "
                        "got another"
                    )
                    raise SourceError(annotation, text)
                _check(annotation, facts)
            except SourceError as error:
                sources.error(error.position, error.message)


def _lists_of_annotations(program: tree.Program) -> Iterator[tree.Annotations]:
    return (getattr(node, "annotations", []) for node in walk(program.declarations))


def _check(annotation: tree.Annotation, facts: Facts) -> None:
    name = annotation.name
    if name in _NEED_BODY and not annotation.tokens and not annotation.is_structured:
        raise SourceError(annotation, f"expected a value of `@{name}` in parentheses, got none")
    if name in _STRINGS and not annotation.is_structured:
        for token in annotation.tokens:
            if token.kind is not TokenKind.STRING and token.text not in (",", "++", "(", ")"):
                raise SourceError(annotation, f"expected a string in `@{name}(...)`, got `{token.text}`")
    if name == "match" and [token.kind for token in annotation.tokens] != [TokenKind.NAME]:
        given = " ".join(token.text for token in annotation.tokens)
        raise SourceError(annotation, f"expected a kind of match in `@match(...)`, got `{given}`")
    if name == "p4runtime_translation" and not annotation.is_structured:
        _check_translation(annotation)
    if annotation.is_structured and annotation.tokens:
        _check_structured(annotation, facts)


def _check_translation(annotation: tree.Annotation) -> None:
    """Check `@p4runtime_translation(uri, type)`: a string, and bit<N>, a string or a width."""
    uri, comma, *given = [*annotation.tokens, *[Token(TokenKind.END, "", annotation.position)] * 2]
    words = [token.text for token in given if token.kind is not TokenKind.END]
    is_bits = len(words) == 4 and words[:2] == ["bit", "<"] and words[2].isdecimal() and words[3] == ">"
    is_other = len(words) == 1 and (words == ["string"] or words[0].isdecimal())
    if uri.kind is not TokenKind.STRING or comma.text != "," or not (is_bits or is_other):
        text = 'expected `@p4runtime_translation("name", bit<N>)` with a number, or `string`'
        raise SourceError(annotation, f"{text}, got `{''.join(words)}`")


def _check_structured(annotation: tree.Annotation, facts: Facts) -> None:
    """Check that square brackets contain constants, or names with constants, but not both (§18.2.2)."""
    end = Token(TokenKind.SYMBOL, "}", annotation.tokens[-1].position)
    reader = ExpressionParser([*annotation.tokens, end])
    value = reader.braced(annotation.position)
    if reader.token.kind is not TokenKind.END:
        raise reader.unexpected("`]`")
    values = [field.value for field in value.fields] if isinstance(value, tree.StructExpression) else []
    if isinstance(value, tree.ListExpression):
        values = value.elements
    for each in values:
        _check_constant(each, annotation, facts)


def _check_constant(value: tree.Node, annotation: tree.Annotation, facts: Facts) -> None:
    if isinstance(value, tree.ListExpression | tree.StructExpression | tree.Call | tree.InvalidHeader):
        text = f"expected a number, a string or a bool in `@{annotation.name}[...]`, got another value"
        raise SourceError(value, text)
    if isinstance(value, tree.Name):
        found = facts.globals.find(value.name)
        if not found or not isinstance(found[0], tree.Constant):
            raise SourceError(value, f"expected a constant in `@{annotation.name}[...]`, got `{value.name}`")
    for part in parts(value):
        if not isinstance(part, tree.BaseType | tree.SizedType | tree.NamedType):
            _check_constant(part, annotation, facts)
