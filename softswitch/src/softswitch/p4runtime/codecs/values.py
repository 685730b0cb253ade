"""P4Runtime's binary strings, single and in groups by field ID (P4Runtime 1.4 §8.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid


def encode(value: int) -> bytes:
    """Return the canonical form of a non-negative integer: the shortest big-endian string, not empty."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def decode(value: bytes, width: int, location: str) -> int:
    """Return the integer in a binary string with any leading zeros. Raises Refusal, with the `location`."""
    number = int.from_bytes(value, "big")
    if not value or number >> width:
        raise misfit(value, width, location)
    return number


def misfit(value: bytes, width: int, location: str) -> Refusal:
    """Return the refusal of a string that is empty or wider than its field."""
    # The code is INVALID_ARGUMENT, as in §9.1 and BMv2; §8.3 has OUT_OF_RANGE.
    if not value:
        return invalid(f"{location}: the value is empty, bit<{width}> needs at least one byte")
    return invalid(f"{location}: 0x{value.hex()} does not fit in bit<{width}>")


def encode_uint128(value: int) -> p4r.Uint128:
    return p4r.Uint128(high=value >> 64, low=value & (1 << 64) - 1)


def decode_uint128(message: p4r.Uint128) -> int:
    return message.high << 64 | message.low


class Field(NamedTuple):
    """An exact match field, an action parameter or a packet metadata field; `width` in bits."""

    id: int
    width: int
    name: str


class FieldGroup:
    """The fields of an exact key, an action or a header, in any order; `location` begins the errors."""

    def __init__(self, location: str, fields: Sequence[Field]) -> None:
        self.location = location
        self.fields = tuple(fields)
        self.widths = tuple(field.width for field in fields)
        self._shape = [(field.id, field.width) for field in fields]

    def decode(self, given: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
        """Return the integers of values by field ID, in declaration order; raises Refusal."""
        if len(given) != len(self._shape):
            raise self.mismatch([identity for identity, _ in given])
        numbers = []
        for (identity, value), (wanted, width) in zip(given, self._shape, strict=True):
            number = int.from_bytes(value, "big")
            if identity != wanted or number >> width or not value:
                return self._decode(given)
            numbers.append(number)
        return tuple(numbers)

    def _decode(self, given: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
        """Decode values that are in another order, or wrong."""
        by_id = dict(given)
        if by_id.keys() != {field.id for field in self.fields}:
            raise self.mismatch([identity for identity, _ in given])
        return tuple(decode(by_id[f.id], f.width, f"{self.location} {f.name}") for f in self.fields)

    def encode(self, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return the field IDs and canonical values of integers in declaration order."""
        return [(field.id, encode(value)) for field, value in zip(self.fields, numbers, strict=True)]

    def mismatch(self, given: Sequence[int]) -> Refusal:
        """Return the refusal of field IDs that are unknown, repeated or missing."""
        names = {field.id: field.name for field in self.fields}
        seen = set()
        for identity in given:
            if identity not in names:
                return invalid(f"{self.location} with ID {identity} does not exist; {self._expected}")
            if identity in seen:
                return invalid(f"{self.location} {names[identity]} is given twice")
            seen.add(identity)
        return self.missing(next(name for i, name in names.items() if i not in seen))

    def missing(self, name: str) -> Refusal:
        return invalid(f"{self.location} {name} is missing; {self._expected}")

    @property
    def _expected(self) -> str:
        return f"expected {', '.join(f'{f.name} (ID {f.id})' for f in self.fields) or 'none'}"
