"""Read JSON as BMv2 does, whose parser jsoncpp takes more than RFC 8259 has.

BMv2 reads its file by `stream >> value`, jsoncpp's reader with default settings. Beyond RFC 8259 it takes:

- comments of C and C++ before, between and after values, and a comma before a closing bracket;
- control characters and bytes that are not UTF-8 in strings (a byte that is not UTF-8 is Latin-1 here);
- numbers with leading zeros, a plus sign, or without digits after the point or the minus sign;
- a byte order mark, and anything after the first value.

It refuses NaN, infinities, and numbers beyond a double. The last of several equal keys counts; integers of
more than 64 bits are doubles. Up to 1,000 values are nested.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import NoReturn

from softswitch.errors import ProgramError

MAX_DEPTH = 1000
"""Containers around the innermost value (jsoncpp's `stackLimit`)."""
_INTEGERS = range(-(1 << 63), 1 << 64)
_BOM = "\ufeff"
_BLANKS = re.compile(r"(?:[ \t\r\n]+|/\*.*?\*/|//[^\r\n]*)*", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[0-9a-fA-F]{4})|u(?P<code>[0-9a-fA-F]{4})|(?P<letter>.))",
    re.DOTALL,
)
_HIGH_SURROGATES = range(0xD800, 0xDC00)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_NUMBER = re.compile(r"(?:[-+]|(?=[0-9]))[0-9]*(\.[0-9]*)?([eE][-+]?[0-9]*)?")
_LITERALS = {"true": True, "false": False, "null": None}
_CLOSING = {"{": "}", "[": "]"}
_MAX_SHOWN_CHARACTERS = 20  # of the text in an error


def decode_text(data: bytes) -> str:
    """Decode UTF-8; a byte that is not UTF-8 is read as Latin-1, where BMv2 keeps the byte."""
    return data.decode("utf-8", errors=_LATIN_1)


def parse_json(data: bytes | str) -> object:
    """Return the first value of a text; raise `ProgramError` with line and column where jsoncpp fails."""
    text = (decode_text(data) if isinstance(data, bytes) else data).removeprefix(_BOM)
    # Python's parser takes unpaired surrogates, of which jsoncpp refuses the first halves.
    if "\\ud" not in text and "\\uD" not in text:
        try:
            return json.loads(
                text, parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_refuse
            )
        except (ValueError, RecursionError):
            pass  # not RFC 8259, or deeper than Python's parser goes
    return _Reader(text).read()


def _read_latin_1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


_LATIN_1 = "softswitch.latin-1"
codecs.register_error(_LATIN_1, _read_latin_1)


def _parse_integer(text: str) -> int | float:
    value = int(text)
    return value if value in _INTEGERS else _parse_float(text)


def _parse_float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def read(self) -> object:
        """Read one value without recursion, since it may be nested deeper than Python's stack."""
        root: list[object] = []
        containers: list[list[object] | dict[str, object]] = [root]
        brackets: list[str] = []  # opening ones of `containers` behind the root
        keys = [""]  # of the value to come, for each container
        while True:
            self._skip_blanks()
            value: object
            opening = self._take("{", "[")
            value = ({} if opening == "{" else []) if opening else self._scalar()
            container = containers[-1]
            if isinstance(container, dict):
                container[keys[-1]] = value
            else:
                container.append(value)
            if isinstance(value, (list, dict)):
                if len(brackets) == MAX_DEPTH:
                    self._fail(f"at most {MAX_DEPTH} nested values")
                brackets.append(opening)
                containers.append(value)
                keys.append("")
            is_first = bool(opening)
            while brackets and self._take_closing(_CLOSING[brackets[-1]], is_first):
                brackets.pop()
                containers.pop()
                keys.pop()
                is_first = False
            if not brackets:
                return root[0]
            if brackets[-1] == "{":
                keys[-1] = self._key()

    def _take_closing(self, closing: str, is_first: bool) -> bool:
        """Take the comma before the next element, unless it is the first, or the bracket behind the last."""
        self._skip_blanks()
        if is_first or self._take(","):
            self._skip_blanks()
            return bool(self._take(closing))
        if self._take(closing):
            return True
        self._fail(f"`,` or `{closing}`")

    def _key(self) -> str:
        match = _STRING.match(self._text, self._position)
        if match is None:
            self._fail("a key or `}`")
        key = self._unescape(match)
        self._skip_blanks()
        if not self._take(":"):
            self._fail("`:`")
        return key

    def _scalar(self) -> object:
        text, position = self._text, self._position
        if match := _STRING.match(text, position):
            return self._unescape(match)
        if match := _NUMBER.match(text, position):
            return self._number(match)
        for literal, value in _LITERALS.items():
            if text.startswith(literal, position):
                self._position += len(literal)
                return value
        self._fail("a value")

    def _number(self, match: re.Match[str]) -> int | float:
        text = match[0]
        is_integer = match[1] is None and match[2] is None and text[0] != "+"
        try:
            # jsoncpp reads a minus sign alone as 0.
            number = _parse_integer("0" if text == "-" else text) if is_integer else _parse_float(text)
        except ValueError:
            self._fail("a number")
        self._position = match.end()
        return number

    def _unescape(self, match: re.Match[str]) -> str:
        content_start = match.start(1)

        def replace(escape: re.Match[str]) -> str:
            if escape["high"] is not None:  # of a surrogate pair; jsoncpp does not check the second half
                return chr(0x10000 + (int(escape["high"], 16) % 0x400 << 10) + int(escape["low"], 16) % 0x400)
            if escape["code"] is not None and int(escape["code"], 16) not in _HIGH_SURROGATES:
                return chr(int(escape["code"], 16))
            if escape["letter"] in _ESCAPED:
                return _ESCAPED[escape["letter"]]
            self._position = content_start + escape.start()
            self._fail("an escape sequence of JSON")

        unescaped = _ESCAPE.sub(replace, match[1])
        self._position = match.end()
        # A second half without a first one stays as its bytes.
        return decode_text(unescaped.encode("utf-8", "surrogatepass"))

    def _skip_blanks(self) -> None:
        match = _BLANKS.match(self._text, self._position)
        assert match is not None  # it may be empty
        self._position = match.end()

    def _take(self, *characters: str) -> str:
        found = self._text[self._position : self._position + 1]
        if found not in characters:
            return ""
        self._position += 1
        return found

    def _fail(self, expected: str) -> NoReturn:
        line = self._text.count("\n", 0, self._position) + 1
        column = self._position - self._text.rfind("\n", 0, self._position)
        shown = self._text[self._position : self._position + _MAX_SHOWN_CHARACTERS]
        raise ProgramError(
            f"the BMv2 JSON is not JSON: line {line}, column {column}: expected {expected}, got {shown!r}"
        )
