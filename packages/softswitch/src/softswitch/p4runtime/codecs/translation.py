"""Values of types with `@p4runtime_translation`, for controllers and in programs (P4Runtime 1.5 §18.3).

The mapping of a type is a bijection. It begins with the pairs of `@p4runtime_translation_mappings`, an
annotation of the type in P4Info, which a controller may add. Other numbers stand for themselves, as do
decimal numbers in strings. Any other string gets the smallest free number from 1 on, and keeps it while an
entity has it (`codecs.uses`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from grpc import StatusCode

from softswitch.p4runtime.codecs.uses import Uses
from softswitch.p4runtime.codecs.values import decode, encode
from softswitch.p4runtime.messages import p4t
from softswitch.p4runtime.status import Refusal, invalid

_MAPPINGS = "@p4runtime_translation_mappings"
_INDEX_WIDTH = 32  # width in bits of a type that is used for indices only: the JSON does not state it
# A pair in the annotation: {"string", number} or {number, number}.
_PAIR = re.compile(r'\{\s*(?:"((?:[^"\\]|\\.)*)"|(\w+))\s*,\s*(\w+)\s*,?\s*\}')


class NoFreeNumber(Refusal):
    """A string has no number, and all numbers of its type are in use."""


class Translation:
    """The mapping of a type of `width` bits; controllers use `sdn_width` bits, or strings if that is None."""

    def __init__(self, name: str, spec: p4t.P4NewTypeSpec, uses: Uses | None = None) -> None:
        self.name = name
        self._uses = uses or Uses()
        self.width = 0  # until a field of this type is known (`Translations.of`)
        translated_type = spec.translated_type
        self.sdn_width = (
            translated_type.sdn_bitwidth if translated_type.WhichOneof("sdn_type") == "sdn_bitwidth" else None
        )
        self._numbers_by_value: dict[bytes | int, int] = {}
        self._values_by_number: dict[int, bytes | int] = {}
        self._next_number = 1
        for value, number in _parse_pairs(spec.annotations, f"P4Info: type {name}"):
            self._add_pair(value.encode() if isinstance(value, str) else value, number)
        self._mapped_numbers = frozenset(self._values_by_number)

    @property
    def has_strings(self) -> bool:
        return self.sdn_width is None

    def decode(self, value: bytes, location: str) -> int:
        """Return the number of a value; mention it, and give it one if it is a string without one."""
        if self.sdn_width is not None:
            integer = decode(value, self.sdn_width, location)
            number = self._numbers_by_value.get(integer)
            return self._number_for_integer(integer, location) if number is None else number
        number = self._numbers_by_value.get(value)
        if is_new := number is None:
            number = self._number_for_text(value, location)
            self._add_pair(value, number)
        if number not in self._mapped_numbers:
            self._uses.mention(self, number, is_new)
        return number

    def take_number(self, value: bytes, number: int) -> None:
        """Give a value its number again."""
        self._add_pair(value, number)

    def return_number(self, number: int) -> bytes:
        """Make a number free; return the string that had it."""
        value = self._values_by_number.pop(number)
        assert isinstance(value, bytes)
        del self._numbers_by_value[value]
        self._next_number = min(self._next_number, max(number, 1))
        return value

    def _number_for_integer(self, value: int, location: str) -> int:
        width = self.width or _INDEX_WIDTH
        if value >> width or value in self._values_by_number:
            problem = f"does not fit in bit<{width}>" if value >> width else "is the number of another value"
            hint = f"{_MAPPINGS} of type {self.name} in P4Info can map it"
            raise invalid(f"{location}: {value:#x} {problem}; {hint}")
        return value

    def _number_for_text(self, value: bytes, location: str) -> int:
        # No number has more digits than bits. Of long texts, int() would be slow, or raise ValueError.
        if value.isdigit() and len(value) <= self.width:
            number = int(value)
            if value == b"%d" % number and not number >> self.width and number not in self._values_by_number:
                return number
        return self._next_free_number(location)

    def encode(self, number: int) -> bytes:
        """Return the controller's value, which for a number that is not mapped is the number itself."""
        value = self._values_by_number.get(number, number if self.sdn_width is not None else b"%d" % number)
        return encode(value) if isinstance(value, int) else value

    def cell_index(self, controller_index: int, location: str) -> int:
        return self.decode(encode(controller_index), location)

    def controller_index(self, number: int) -> int | None:
        """Return the controller's index of a cell; None if that index is another cell's."""
        if number not in self._values_by_number:
            return None if number in self._numbers_by_value else number
        value = self._values_by_number[number]
        return value if isinstance(value, int) else None

    def is_full_mask(self, mask: bytes) -> bool:
        if self.sdn_width is None:
            return bool(mask) and not mask.strip(b"\xff")
        # P4Info states the program's width for match fields, so controllers may use that, too.
        return int.from_bytes(mask, "big") in ((1 << self.sdn_width) - 1, (1 << self.width) - 1)

    @property
    def full_mask(self) -> bytes:
        return b"\xff" if self.sdn_width is None else encode((1 << self.sdn_width) - 1)

    def _add_pair(self, value: bytes | int, number: int) -> None:
        if value in self._numbers_by_value or number in self._values_by_number:
            raise invalid(f"P4Info: type {self.name}: {value!r} or {number} is mapped twice")
        self._numbers_by_value[value], self._values_by_number[number] = number, value

    def _next_free_number(self, location: str) -> int:
        while self._next_number in self._values_by_number:
            self._next_number += 1
        if self._next_number >> self.width:
            text = f"{location}: all {(1 << self.width) - 1} values of type {self.name} are in use"
            raise NoFreeNumber(StatusCode.RESOURCE_EXHAUSTED, text)
        return self._next_number


def _parse_pairs(annotations: Iterable[str], location: str) -> Iterable[tuple[str | int, int]]:
    for text in annotations:
        if not text.startswith(_MAPPINGS):
            continue
        pairs = text.removeprefix(_MAPPINGS).strip("() \n")
        for string, sdn_number, number in _PAIR.findall(pairs):
            try:
                value = int(sdn_number, 0) if sdn_number else re.sub(r"\\(.)", r"\1", string)
                yield value, int(number, 0)
            except ValueError:
                raise invalid(f"{location}: expected pairs of a value and a number in {text}") from None


class Translations:
    """The translations of a P4Info by type. Values of the same type have one mapping everywhere."""

    def __init__(self, types: p4t.P4TypeInfo) -> None:
        self.uses = Uses()
        self._translations_by_name = {
            name: Translation(name, spec, self.uses)
            for name, spec in types.new_types.items()
            if spec.HasField("translated_type")
        }

    @property
    def has_strings(self) -> bool:
        return any(translation.has_strings for translation in self._translations_by_name.values())

    def of(self, type_name: p4t.P4NamedType, width: int = 0) -> Translation | None:
        translation = self._translations_by_name.get(type_name.name)
        if translation is not None:  # widen it to the widest field of the type
            translation.width = max(translation.width, width)
        return translation

    def of_index(self, type_name: p4t.P4NamedType) -> Translation | None:
        """Return the translation of an array's indices; None for strings, because messages have integers."""
        translation = self._translations_by_name.get(type_name.name)
        return translation if translation is not None and translation.sdn_width is not None else None
