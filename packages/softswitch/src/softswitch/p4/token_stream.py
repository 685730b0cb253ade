"""The tokens of a program with a position, and what all parts of the parser read alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from softswitch.p4 import tree
from softswitch.p4.diagnostics import NOWHERE, Position, SourceError
from softswitch.p4.lexer import Token, TokenKind

T = TypeVar("T")
MAX_NESTING = 200
"""Nested expressions, types and statements; Python's stack would end at some 1,000."""
KEYWORDS = frozenset((
    "abstract", "action", "apply", "bit", "bool", "break", "const", "continue", "control", "default",
    "else", "enum", "error", "exit", "extern", "false", "for", "header", "header_union", "if", "in",
    "inout", "int", "match_kind", "out", "package", "parser", "return", "select", "state", "string",
    "struct", "switch", "table", "this", "transition", "true", "tuple", "type", "typedef", "value_set",
    "varbit", "void", "_",
))  # fmt: skip
_NAMES_TOO = frozenset((
    "action", "actions", "apply", "entries", "key", "state", "type", "list", "match_kind", "priority",
    "table", "select", "pragma",
))  # fmt: skip
"""Keywords that the grammar takes as names where a name must stand."""
_MAX_SHOWN_TOKEN = 40


def describe(token: Token) -> str:
    if token.kind is TokenKind.END:
        return "the end of the program"
    text = token.text if len(token.text) <= _MAX_SHOWN_TOKEN else f"{token.text[:_MAX_SHOWN_TOKEN]}..."
    return f"`{text}`" if text.isprintable() else f"the characters {text!r}"


class TokenStream:
    """Reads tokens one by one; `types` are the names of types that were declared so far."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        last = tokens[-1].position if tokens else NOWHERE
        self.tokens = [*tokens, Token(TokenKind.END, "", last)]
        self.index = 0
        self.types: set[str] = set()
        self.inner_types: list[tree.Declaration] = []
        """Types that the last declaration declares inside, as in `typedef struct s {} t;`."""
        self.nesting = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    @property
    def text(self) -> str:
        return self.tokens[self.index].text

    @property
    def position(self) -> Position:
        return self.tokens[self.index].position

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.tokens[self.index]
        if token.kind is not TokenKind.END:
            self.index += 1
        return token

    def accept(self, text: str) -> bool:
        token = self.tokens[self.index]
        if token.text == text and token.kind is not TokenKind.STRING:
            self.index += 1
            return True
        return False

    def at(self, *texts: str) -> bool:
        token = self.tokens[self.index]
        return token.text in texts and token.kind is not TokenKind.STRING

    def expect(self, text: str, place: str = "") -> Token:
        token = self.tokens[self.index]
        if token.text == text and token.kind is not TokenKind.STRING:
            self.index += 1
            return token
        raise self.unexpected(f"`{text}`{' ' if place else ''}{place}")

    def listed(self, end: str, parse: Callable[[], T]) -> list[T]:
        """Return what is parsed between commas, up to `end`, which may follow a comma."""
        parsed: list[T] = []
        while not self.accept(end):
            parsed.append(parse())
            if not self.at(end):
                self.expect(",", f"or `{end}`")
        return parsed

    def unexpected(self, expected: str) -> SourceError:
        token = self.token
        hint = ""
        if expected.startswith("`;`") and self.index:
            before = self.tokens[self.index - 1].position
            if before.line != token.position.line:
                return SourceError(before, f"expected {expected} after this, got {describe(token)}")
        if token.kind is TokenKind.NAME and token.text in KEYWORDS:
            hint = ", a keyword"
        return SourceError(token.position, f"expected {expected}, got {describe(token)}{hint}")

    def name(self, what: str = "a name") -> Token:
        token = self.token
        if token.kind is TokenKind.NAME and (token.text not in KEYWORDS or token.text in _NAMES_TOO):
            self.index += 1
            return token
        raise self.unexpected(what)

    def at_name(self) -> bool:
        token = self.token
        return token.kind is TokenKind.NAME and (token.text not in KEYWORDS or token.text in _NAMES_TOO)

    def enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise SourceError(self, f"expected at most {MAX_NESTING} nested parts of a program")

    def leave(self) -> None:
        self.nesting -= 1

    # -- annotations

    def annotations(self) -> tree.Annotations:
        found: tree.Annotations = []
        while self.at("@"):
            position = self.advance().position
            name = self.advance()
            if name.kind is not TokenKind.NAME:
                raise SourceError(name, f"expected the name of an annotation, got {describe(name)}")
            tokens: list[Token] = []
            is_structured = self.at("[")
            if name.text == "pragma":
                line = name.position.line
                name = self.advance()
                while self.position.line == line and self.token.kind is not TokenKind.END:
                    tokens.append(self.advance())
            elif self.at("(", "["):
                tokens = self._bracketed()
            found.append(tree.Annotation(position, name.text, tokens, is_structured))
        return found

    def _bracketed(self) -> list[Token]:
        """Return the tokens between a bracket and the one that closes it."""
        opening = self.advance()
        tokens: list[Token] = []
        depth = 1
        while True:
            token = self.advance()
            if token.kind is TokenKind.END:
                raise SourceError(opening, f"expected a bracket that closes `{opening.text}`, there is none")
            if token.kind is not TokenKind.STRING:
                depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if depth == 0:
                return tokens
            tokens.append(token)
