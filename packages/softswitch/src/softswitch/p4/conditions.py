"""Integer expressions of `#if`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softswitch.p4.diagnostics import Position, SourceError
from softswitch.p4.lexer import Token, TokenKind, parse_integer

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    ">": (7, lambda a, b: int(a > b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << min(max(b, 0), 64)),
    ">>": (8, lambda a, b: a >> min(max(b, 0), 64)),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, lambda a, b: a // b if b else 0),
    "%": (10, lambda a, b: a % b if b else 0),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "!": lambda a: int(not a),
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
}


@dataclass(slots=True)
class Branch:
    """An `#if` at `position`: whether lines now belong to the program, and whether some did before."""

    position: Position
    is_active: bool
    was_active: bool


def evaluate_condition(tokens: Sequence[Token], position: Position) -> int:
    """Return the value of the expression that follows `#if`; names that are no macros count as 0."""
    reader = _Reader(_merged(tokens), position)
    value = reader.ternary()
    if reader.index < len(reader.tokens):
        raise SourceError(position, f"expected the end of the line, got `{reader.tokens[reader.index].text}`")
    return value


def _merged(tokens: Sequence[Token]) -> list[Token]:
    """Join `>` and `>`, which the lexer keeps apart, to a shift."""
    merged: list[Token] = []
    for token in tokens:
        if token.text == ">" and merged and merged[-1].text == ">" and not token.follows_space:
            merged[-1] = Token(TokenKind.SYMBOL, ">>", merged[-1].position)
        else:
            merged.append(token)
    return merged


class _Reader:
    def __init__(self, tokens: list[Token], position: Position) -> None:
        self.tokens, self._position, self.index = tokens, position, 0

    def _next(self) -> Token:
        if self.index == len(self.tokens):
            raise SourceError(self._position, "expected an expression after `#if`, it ends too early")
        self.index += 1
        return self.tokens[self.index - 1]

    def _peek(self) -> str:
        return self.tokens[self.index].text if self.index < len(self.tokens) else ""

    def ternary(self) -> int:
        condition = self._binary(1)
        if self._peek() != "?":
            return condition
        self.index += 1
        left = self.ternary()
        if self._next().text != ":":
            raise SourceError(self._position, "expected `:` after `?`")
        right = self.ternary()
        return left if condition else right

    def _binary(self, precedence: int) -> int:
        left = self._unary()
        while (operator := _BINARY.get(self._peek())) is not None and operator[0] >= precedence:
            self.index += 1
            left = operator[1](left, self._binary(operator[0] + 1))
        return left

    def _unary(self) -> int:
        token = self._next()
        if token.text in _UNARY:
            return _UNARY[token.text](self._unary())
        if token.text == "(":
            value = self.ternary()
            if self._next().text != ")":
                raise SourceError(self._position, "expected `)` in the condition")
            return value
        if token.kind is TokenKind.INTEGER:
            return parse_integer(token.text)[0]
        if token.kind is TokenKind.NAME:
            return int(token.text == "true")
        raise SourceError(self._position, f"expected a number or a name after `#if`, got `{token.text}`")
