"""Tokens of a line of STF, with a cursor whose errors name the expected token."""

from __future__ import annotations

import re

from softswitch.conformance.errors import StfError
from softswitch.conformance.statements import Number

_TOKEN = re.compile(
    r"""
    (?P<quoted>"[^"]+")
  | (?P<hex>0[xX][0-9a-fA-F*]+)
  | (?P<binary>0[bB][01*]+)
  | (?P<decimal>[0-9]+)
  | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<sign>&&&|&|->|==|!=|<=|>=|[:,.()\[\]=<>/])
  | (?P<space>\s+)
    """,
    re.VERBOSE,
)
_BASES = {"hex": (16, 4), "binary": (2, 1)}  # base, and bits of a digit


class Tokens:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._position = 0
        start = 0
        while start < len(text):
            token = _TOKEN.match(text, start)
            if token is None:
                raise StfError(f"unexpected character {text[start]!r}")
            kind = str(token.lastgroup)
            if kind != "space":
                self._tokens.append((kind, token[0]))
            start = token.end()

    @property
    def kind(self) -> str:
        """Kind of the next token: name, quoted, hex, binary, decimal, sign, or end."""
        return self._tokens[self._position][0] if self._position < len(self._tokens) else "end"

    @property
    def text(self) -> str:
        return self._tokens[self._position][1] if self._position < len(self._tokens) else ""

    def _take(self, expected: str, *kinds: str) -> str:
        if self.kind not in kinds:
            token = repr(self.text) if self.text else "the end of the line"
            raise StfError(f"expected {expected}, got {token}")
        text = self.text
        self._position += 1
        return text

    def finish(self) -> None:
        if self.kind != "end":
            raise StfError(f"expected the end of the line, got {self.text!r}")

    def take_sign(self, *signs: str) -> str:
        if self.text not in signs:
            self._take(" or ".join(f"{sign!r}" for sign in signs))  # raises: no kind is given
        return self._take(signs[0], "sign")

    def skip_sign(self, sign: str) -> bool:
        is_next = self.kind == "sign" and self.text == sign
        self._position += int(is_next)
        return is_next

    def word(self, expected: str = "a name") -> str:
        """Read a name without dots; remove its quotes."""
        return self._take(expected, "name", "quoted").strip('"')

    def qualified_name(self, expected: str = "a name") -> str:
        """Read a name with dots, indices and slices, such as `hdr.stack[0].f` or `meta.bits[7:4]`."""
        name = self.word(expected)
        while True:
            if self.skip_sign("."):
                name += "." + self.word()
            elif self.skip_sign("["):
                name += f"[{self._operand('an index')}"
                if self.skip_sign(":"):
                    name += f":{self._operand('the last bit of a slice')}"
                self.take_sign("]")
                name += "]"
            else:
                return name

    def key_name(self, expected: str) -> str:
        """Read the name of a match field, which p4c makes of a key: also `hdr.h.f & 0x0f`."""
        name = self.qualified_name(expected)
        while self.skip_sign("&"):
            name += f" & {self._operand('a mask')}"
        return name

    def _operand(self, expected: str) -> str:
        """Read a number, as it is written, or a name."""
        if self.kind in ("hex", "binary", "decimal"):
            text = self.text
            self.integer(expected)
            return text
        return self.qualified_name(f"{expected}, a number or a name")

    def number(self, expected: str = "a number") -> Number:
        """Read a number in hexadecimal or binary, which may have `*` digits, or in decimal."""
        kind = self.kind
        text = self._take(expected, "hex", "binary", "decimal")
        if kind == "decimal":
            return Number(int(text))
        base, bits_per_digit = _BASES[kind]
        digits = text[2:]  # without 0x or 0b
        max_digit = f"{base - 1:x}"
        value = int(digits.replace("*", "0"), base)
        mask = int("".join("0" if digit == "*" else max_digit for digit in digits), base)
        return Number(value, mask, bits_per_digit * len(digits))

    def integer(self, expected: str = "a number") -> int:
        text = self.text
        number = self.number(expected)
        if number.has_wildcard:
            raise StfError(f"expected {expected} without '*' digits, got {text}")
        return number.value

    def integers(self, expected: str) -> tuple[int, ...]:
        numbers = [self.integer(expected)]
        while self.kind != "end":
            numbers.append(self.integer(expected))
        return tuple(numbers)

    def real(self, expected: str) -> float:
        text = self._take(expected, "decimal")
        return float(f"{text}.{self._take('a fraction', 'decimal')}" if self.skip_sign(".") else text)
