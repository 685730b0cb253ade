"""Random edits of one place of a JSON: deletions, values of other types, and values of other places."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from softswitch.errors import ProgramError
from softswitch.ir import Program
from softswitch.load import load_program

Place = tuple[Any, Any]  # an object or a list, and a key or position of it
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    1 << 40,
    0.5,
    "",
    "x",
    "0x",
    "0x1",
    "-0xff",
    [],
    {},
    [[]],
    ["x"],
    {"x": 0},
)


def places(value: Any) -> Iterator[Place]:
    keys = list(value) if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield value, key
        yield from places(value[key])


class Editor:
    def __init__(self, text: bytes, random: Random) -> None:
        self.text = json.loads(text)
        self._random = random
        # Each place with the key of the part of the JSON in which it is, and the text of each part.
        self._places: list[tuple[str | None, Place]] = []
        self._parts: dict[str, str] = {}
        for name, part in self.text.items():
            self._places += [(None, (self.text, name)), *((name, place) for place in places(part))]
            self._parts[name] = json.dumps(part)

    def edited(self) -> bytes:
        """Return the JSON with an edit, which is then undone; no other code may have edited it."""
        random = self._random
        part, (inside, key) = random.choice(self._places)
        before = inside[key]
        choice = random.random()
        if choice < 0.35:
            text = self._deleted(part, inside, key)
        else:
            _, (other, place) = random.choice(self._places)
            inside[key] = random.choice(ODD_VALUES) if choice < 0.8 else other[place]
            text = self._dumped(part, inside, key, before)
            inside[key] = before
        return text

    def dumped(self) -> bytes:
        return json.dumps(self.text).encode()

    def _dumped_with(self, part: str | None) -> bytes:
        """Return what `dumped` returns, when only a part was edited; None is the JSON's own keys."""
        if part is None:
            return self.dumped()
        texts = {**self._parts, part: json.dumps(self.text[part])}
        return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}").encode()

    def _dumped(self, part: str | None, inside: Any, key: Any, before: Any) -> bytes:
        try:
            return self._dumped_with(part)
        except (ValueError, RecursionError):  # the value holds itself
            inside[key] = before
            return self._dumped_with(part)

    def _deleted(self, part: str | None, inside: Any, key: Any) -> bytes:
        copied = inside.copy()
        del inside[key]
        text = self._dumped_with(part)
        if isinstance(inside, dict):
            inside.clear()
            inside.update(copied)
        else:
            inside[:] = copied
        return text


def bare_error(data: bytes) -> tuple[Program | None, str]:
    """Load a program; return it unless it is refused, and the bare exception if its refusal hides one."""
    try:
        return load_program(data), ""
    except ProgramError as error:
        cause = error.__cause__
        return None, "" if cause is None else f"{type(cause).__name__}: {cause}"
