"""Conditions of the preprocessor within strings of several lines, as annotations of SONiC PINS have them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from softswitch.p4.conditions import Branch
from softswitch.p4.diagnostics import Position, SourceError
from softswitch.p4.lexer import Token, TokenKind, split_lines

_CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
Follow = Callable[[list[Branch], str, list[Token], Position], bool]
"""Follows a directive, given by its name and the tokens after it, and returns whether it is conditional."""


def select_lines(token: Token, follow: Follow) -> Token:
    """Return a string with empty lines in place of conditional directives and of the lines that they skip.

    The C preprocessor knows no strings of several lines, so that p4c's P4Info has such empty lines.
    """
    if token.kind is not TokenKind.STRING or "\n" not in token.text:
        return token
    conditions: list[Branch] = []
    first, *lines = token.text.split("\n")
    for n, line in enumerate(lines):
        position = Position(token.position.file, token.position.line + n + 1, 1)
        tokens = split_lines(line, position.file)[0][1:] if _CONDITION.match(line) else []
        is_condition = bool(tokens) and follow(conditions, tokens[0].text, tokens[1:], position)
        if is_condition or not all(branch.is_active for branch in conditions):
            lines[n] = ""
    if conditions:
        raise SourceError(conditions[-1].position, "expected `#endif` in the string, there is none")
    return replace(token, text="\n".join([first, *lines]))
