"""Tokens of P4_16 source (specification 1.2.5, §6.4), before and after the preprocessor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from softswitch.p4.diagnostics import Position, SourceError


class TokenKind(IntEnum):
    NAME = 0
    INTEGER = 1
    STRING = 2
    SYMBOL = 3
    END = 4


@dataclass(slots=True)
class Token:
    """A token with its position; `follows_space` tells whether white space is before it."""

    kind: TokenKind
    text: str
    position: Position
    follows_space: bool = False
    hidden: frozenset[str] = frozenset()
    """Macros of whose expansion the token is part, which are not expanded again in it."""


_SYMBOLS = (
    "|+|=", "|-|=", "<<=", "&&&=", "...", "|+|", "|-|", "&&&", "++=",
    "<<", "&&", "||", "==", "!=", "<=", ">=", "++", "..", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "+:",
    "##", "@", "(", ")", "[", "]", "{", "}", "<", ">", "!", "~", "^", "|", "&", "+", "-", "*", "/", "%",
    "?", ":", ";", ",", ".", "=", "#", "\\", "$", "'", "`",
)  # fmt: skip
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\v]+|\\\r?\n)"
    r"|(?P<newline>\n)"
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<integer>(?:[0-9]+[ws])?0[xX][0-9a-fA-F_]+|(?:[0-9]+[ws])?0[bB][01_]+|(?:[0-9]+[ws])?0[oO][0-7_]+"
    r"|(?:[0-9]+[ws])?0[dD][0-9_]+|(?:[0-9]+[ws])?[0-9][0-9_]*)"
    r'|(?P<string>"(?:\\.|[^"\\])*")'
    r"|(?P<symbol>" + "|".join(map(re.escape, _SYMBOLS)) + ")",
    re.DOTALL,
)
_INVALID = re.compile(r"[^\x20-\x7e\s]+")
_MAX_SHORT_LITERAL = 64
_MAX_DECIMAL_DIGITS = 4000
"""Python converts no decimal literals of more than 4,300 digits."""
_MAX_DIGITS = 1 << 15
"""Digits of other literals."""
_MAX_WIDTH_DIGITS = 9
_KINDS = {kind.name.lower(): kind for kind in TokenKind}


def split_lines(text: str, file: str) -> list[list[Token]]:
    """Return the tokens of each logical line: a comment or a backslash may join several lines of the file."""
    lines: list[list[Token]] = []
    tokens: list[Token] = []
    line, line_start, offset, spaced = 1, 0, 0, False
    size = len(text)
    match_at = _TOKEN.match
    while offset < size:
        match = match_at(text, offset)
        if match is None:  # perhaps in lines that the preprocessor skips; the parser refuses the character
            position = Position(file, line, offset - line_start + 1)
            if text.startswith("/*", offset):
                raise SourceError(position, "expected `*/` at the end of the comment, there is none")
            if text[offset] == '"':
                raise SourceError(position, 'expected `"` at the end of the string, there is none')
            invalid = _INVALID.match(text, offset)
            end = invalid.end() if invalid is not None else offset + 1
            tokens.append(Token(TokenKind.SYMBOL, text[offset:end], position, spaced))
            spaced, offset = False, end
            continue
        group, end = match.lastgroup, match.end()
        if group == "newline":
            lines.append(tokens)
            tokens, line, line_start, spaced = [], line + 1, end, True
        elif group in ("space", "comment"):
            spaced = True
            if count := match.group().count("\n"):
                line, line_start = line + count, offset + match.group().rindex("\n") + 1
        else:
            assert group is not None
            position = Position(file, line, offset - line_start + 1)
            token_text = match.group()
            if group == "integer" and len(token_text) > _MAX_SHORT_LITERAL:
                _check_literal(token_text, position)
            tokens.append(Token(_KINDS[group], token_text, position, spaced))
            spaced = False
            if group == "string" and (count := token_text.count("\n")):
                line, line_start = line + count, offset + token_text.rindex("\n") + 1
        offset = end
    lines.append(tokens)
    return lines


_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}
_PARTS = re.compile(
    r"(?:(?P<width>[0-9]+)(?P<sign>[ws]))?(?:0(?P<base>[xXbBoOdD]))?(?P<digits>[0-9a-fA-F_]+)\Z"
)


def _check_literal(text: str, position: Position) -> None:
    """Raise `SourceError` for a literal that is too long to be converted."""
    match = _PARTS.match(text)
    assert match is not None, text
    is_decimal = (match["base"] or "d") in "dD"
    limit = _MAX_DECIMAL_DIGITS if is_decimal else _MAX_DIGITS
    if len(match["digits"]) > limit:
        raise SourceError(
            position, f"expected an integer of at most {limit} digits, got {len(match['digits'])}"
        )
    if len(match["width"] or "") > _MAX_WIDTH_DIGITS:
        text = f"expected a width of at most {_MAX_WIDTH_DIGITS} digits, got {len(match['width'])}"
        raise SourceError(position, text)


def parse_integer(text: str) -> tuple[int, int | None, bool]:
    """Return the value of a literal, its width in bits (None if it has none), and whether it is signed."""
    match = _PARTS.match(text)
    assert match is not None, text
    base = _BASES[match["base"].lower()] if match["base"] else 10
    width = int(match["width"]) if match["width"] else None
    return int(match["digits"].replace("_", "") or "0", base), width, match["sign"] == "s"


def integer_base(text: str) -> int:
    match = _PARTS.match(text)
    assert match is not None, text
    return _BASES[match["base"].lower()] if match["base"] else 10
