from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a header type: name and width in bits (the maximum width of a varbit field)."""

    name: str
    width: int
    signed: bool = False
    varbit: bool = False

    @property
    def min_value(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max_value(self) -> int:
        """Largest stored value, beyond that of int<width>: BMv2 wraps signed fields at 2^width (fields.h)."""
        return (1 << self.width) - 1

    @property
    def stored_bits(self) -> int:
        """Bits that hold every value from `min_value` to `max_value`, at least one."""
        return max(1, self.width + self.signed)


@dataclass(frozen=True, slots=True)
class Header:
    """A header instance, or a metadata instance, which is never on the wire and zeroed for each packet."""

    name: str
    fields: tuple[FieldType, ...]
    metadata: bool = False

    @property
    def bits(self) -> int:
        """Width of the fixed fields in bits."""
        return sum(f.width for f in self.fields if not f.varbit)

    @property
    def varbit_position(self) -> int | None:
        """Position of the varbit field, of which a header has at most one."""
        return next((i for i, f in enumerate(self.fields) if f.varbit), None)

    @property
    def max_bytes(self) -> int:
        return sum(f.width for f in self.fields) // 8


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack: indices of its elements, which have the same type.

    A stack of unions is one such stack for each member of the union; these share `cursor`, the index of their
    `next` position in `Packet.cursors`.
    """

    name: str
    headers: tuple[int, ...]
    cursor: int
