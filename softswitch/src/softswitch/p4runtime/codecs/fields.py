"""Groups of values by field ID: exact keys, parameters of actions, metadata of packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.codecs.values import decode, encode
from softswitch.p4runtime.status import Refusal, invalid


class Field(NamedTuple):
    """An exact match field, an action parameter or a packet metadata field; `width` in bits."""

    id: int
    width: int
    name: str
    translation: Translation | None = None

    def decode(self, value: bytes, location: str) -> int:
        if self.translation is not None:
            return self.translation.decode(value, location)
        return decode(value, self.width, location)

    def encode(self, number: int) -> bytes:
        return encode(number) if self.translation is None else self.translation.encode(number)


class FieldGroup:
    """The fields of an exact key, an action or a header, in any order; `location` prefixes error messages."""

    def __init__(self, location: str, fields: Sequence[Field]) -> None:
        self.location = location
        self.fields = tuple(fields)
        self.widths = tuple(field.width for field in fields)
        self._ids_and_widths = [(field.id, field.width) for field in fields]
        self.is_translated = any(field.translation is not None for field in fields)

    def decode(self, given: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
        """Decode (field ID, value) pairs to integers in declaration order; raises Refusal."""
        if len(given) != len(self._ids_and_widths):
            raise self.mismatch_error([identity for identity, _ in given])
        if self.is_translated:
            return self._decode_in_any_order(given)
        numbers = []
        for (identity, value), (expected_id, width) in zip(given, self._ids_and_widths, strict=True):
            number = int.from_bytes(value, "big")
            if identity != expected_id or number >> width or not value:
                return self._decode_in_any_order(given)
            numbers.append(number)
        return tuple(numbers)

    def _decode_in_any_order(self, given: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
        by_id = dict(given)
        if by_id.keys() != {field.id for field in self.fields}:
            raise self.mismatch_error([identity for identity, _ in given])
        return tuple(f.decode(by_id[f.id], f"{self.location} {f.name}") for f in self.fields)

    def encode(self, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
        return [(field.id, field.encode(value)) for field, value in zip(self.fields, numbers, strict=True)]

    def mismatch_error(self, given: Sequence[int]) -> Refusal:
        names = {field.id: field.name for field in self.fields}
        seen = set()
        for identity in given:
            if identity not in names:
                return invalid(f"{self.location} with ID {identity} does not exist; {self._expected}")
            if identity in seen:
                return invalid(f"{self.location} {names[identity]} is given twice")
            seen.add(identity)
        return self.missing_error(next(name for i, name in names.items() if i not in seen))

    def missing_error(self, name: str) -> Refusal:
        return invalid(f"{self.location} {name} is missing; {self._expected}")

    @property
    def _expected(self) -> str:
        return f"expected {', '.join(f'{f.name} (ID {f.id})' for f in self.fields) or 'none'}"
