"""The parser: states of operations and a select."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.ir.expressions import ElementField, Expression, FieldRef, Lookahead
from softswitch.ir.statements import Statement


@dataclass(frozen=True, slots=True)
class Extract:
    """Extract a header, or the next element of a stack.

    `varbit_bits` gives the length of the varbit field, which is as long as its type says otherwise.
    `max_bytes` is the most that the whole header may take then.
    """

    header: int | None
    stack: int | None
    varbit_bits: Expression | None = None
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Skip a number of bits, which has to be whole bytes."""

    bits: Expression


@dataclass(frozen=True, slots=True)
class Verify:
    """Stop with an error (its code) where the condition is 0."""

    condition: Expression
    error: Expression


KeyPart = FieldRef | ElementField | Lookahead


def padded(width: int) -> int:
    """Bits that a part of a select's key takes: whole bytes, as in BMv2."""
    return -(-width // 8) * 8


def join_key(parts: Iterable[int], widths: Iterable[int]) -> int:
    """Bit patterns of a select's parts as one number."""
    key = 0
    for value, width in zip(parts, widths, strict=True):
        key = key << padded(width) | value
    return key


@dataclass(frozen=True, slots=True)
class Case:
    """A transition taken when key & mask == value; `state` None accepts.

    With `value_set` it is taken when key & mask is a member under the same mask.
    """

    value: int
    mask: int
    state: int | None
    value_set: int | None = None


@dataclass(frozen=True, slots=True)
class ParserState:
    """Operations, then a select over parts, each padded to whole bytes as in BMv2; no case: accept."""

    name: str
    operations: tuple[Extract | Advance | Verify | Statement, ...]
    key: tuple[KeyPart, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set: the widths of what its members join, and how many there may be."""

    name: str
    widths: tuple[int, ...]
    size: int

    @property
    def bits(self) -> int:
        """Width of a member, joined as a select's key is (`join_key`)."""
        return sum(padded(width) for width in self.widths)
