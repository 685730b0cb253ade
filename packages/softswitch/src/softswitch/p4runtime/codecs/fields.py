"""Groups of values by field ID: exact keys, parameters of actions, metadata of packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.codecs.values import decode, encode
from softswitch.p4runtime.status import Refusal, invalid


class Field(NamedTuple):
    id: int
    width: int  # in bits
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
        self.has_strings = any(
            field.translation is not None and field.translation.has_strings for field in fields
        )

    def decode(self, pairs: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
        """Decode (field ID, value) pairs to integers in declaration order; raises Refusal."""
        if len(pairs) != len(self._ids_and_widths):
            raise self.mismatch_error([field_id for field_id, _ in pairs])
        if self.is_translated:
            return self._decode_in_any_order(pairs)
        # The fast path, for messages with the fields in declaration order.
        numbers = []
        for (field_id, value), (expected_id, width) in zip(pairs, self._ids_and_widths, strict=True):
            number = int.from_bytes(value, "big")
            if field_id != expected_id or number >> width or not value:
                return self._decode_in_any_order(pairs)
            numbers.append(number)
        return tuple(numbers)

    def _decode_in_any_order(self, pairs: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
        values_by_id = dict(pairs)
        if values_by_id.keys() != {field.id for field in self.fields}:
            raise self.mismatch_error([field_id for field_id, _ in pairs])
        return tuple(f.decode(values_by_id[f.id], f"{self.location} {f.name}") for f in self.fields)

    def encode(self, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
        return [(field.id, field.encode(value)) for field, value in zip(self.fields, numbers, strict=True)]

    def mismatch_error(self, found_ids: Sequence[int]) -> Refusal:
        names = {field.id: field.name for field in self.fields}
        seen_ids = set()
        for field_id in found_ids:
            if field_id not in names:
                return invalid(f"{self.location} with ID {field_id} does not exist; {self._expected_text}")
            if field_id in seen_ids:
                return invalid(f"{self.location} {names[field_id]} is given twice")
            seen_ids.add(field_id)
        return self.missing_error(next(name for i, name in names.items() if i not in seen_ids))

    def missing_error(self, name: str) -> Refusal:
        return invalid(f"{self.location} {name} is missing; {self._expected_text}")

    @property
    def _expected_text(self) -> str:
        return f"expected {', '.join(f'{f.name} (ID {f.id})' for f in self.fields) or 'none'}"
