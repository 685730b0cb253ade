"""Parser states: each runs operations, then selects the next state by a key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.ir.expressions import ElementField, Expression, FieldRef, Lookahead
from softswitch.ir.statements import Statement


@dataclass(frozen=True, slots=True)
class Extract:
    """Extract a header, or the next element of a stack.

    `varbit_bits` is the length of the varbit field, a signed integer of 32 bits, and None for its type's
    width. If it is given, `max_bytes` is the maximum length of the whole header. A negative length is more
    than a packet has.
    """

    header: int | None
    stack: int | None
    varbit_bits: Expression | None = None
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Skip a number of bits, which must be a multiple of 8."""

    bits: Expression


@dataclass(frozen=True, slots=True)
class Verify:
    """Reject with an error code if the condition is 0."""

    condition: Expression
    error: Expression


KeyPart = FieldRef | ElementField | Lookahead


def padded_width(width: int) -> int:
    """Return the width of a part of a select's key, padded to whole bytes as in BMv2."""
    return -(-width // 8) * 8


def join_key(parts: Iterable[int], widths: Iterable[int]) -> int:
    key = 0
    for value, width in zip(parts, widths, strict=True):
        key = key << padded_width(width) | value
    return key


@dataclass(frozen=True, slots=True)
class Case:
    """A transition taken if key & mask == value; `state` None accepts.

    With `value_set` it is taken if key & mask equals a member under the same mask.
    """

    value: int
    mask: int
    state: int | None
    value_set: int | None = None


@dataclass(frozen=True, slots=True)
class ParserState:
    """Operations, then a select over parts padded to whole bytes as in BMv2; without a match it accepts."""

    name: str
    operations: tuple[Extract | Advance | Verify | Statement, ...]
    key: tuple[KeyPart, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class ValueSet:
    name: str
    widths: tuple[int, ...]  # of the parts of a member, in bits
    size: int  # maximum number of members

    @property
    def bits(self) -> int:
        """Width in bits of a member, whose parts are joined by `join_key`."""
        return sum(padded_width(width) for width in self.widths)
