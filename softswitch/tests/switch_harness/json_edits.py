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
        self._places = list(places(self.text))
        self._random = random

    def edited(self) -> bytes:
        random = self._random
        inside, key = random.choice(self._places)
        before = inside[key]
        choice = random.random()
        if choice < 0.35:
            text = self._deleted(inside, key)
        else:
            other, place = random.choice(self._places)
            inside[key] = random.choice(ODD_VALUES) if choice < 0.8 else other[place]
            text = self._dumped(inside, key, before)
            inside[key] = before
        return text

    def dumped(self) -> bytes:
        return json.dumps(self.text).encode()

    def _dumped(self, inside: Any, key: Any, before: Any) -> bytes:
        try:
            return self.dumped()
        except (ValueError, RecursionError):  # the value holds itself
            inside[key] = before
            return self.dumped()

    def _deleted(self, inside: Any, key: Any) -> bytes:
        copied = inside.copy()
        del inside[key]
        text = self.dumped()
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
