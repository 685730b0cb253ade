"""Conversion between text and matches or values."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.ir import Between, Masked, Match, MatchKind
from softswitch.p4runtime.codecs.matches import MatchField
from softswitch.runtime.refusals import TABLE, RuntimeRefusal


def value_of(text: str, width: int, location: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise _bad(f"{location}: expected a number, got {text!r}") from None
    if value < 0 or value >> width:
        raise _bad(f"{location}: {text} does not fit in bit<{width}>")
    return value


def match_of(field: MatchField, text: str) -> Match:
    location = f"match field {field.name}"
    full = field.full
    match field.kind:
        case MatchKind.EXACT:
            return value_of(text, field.width, location)
        case MatchKind.LPM:
            prefix, length = _parts(text, "/", location)
            bits = value_of(length, 16, location)
            if bits > field.width:
                raise _bad(f"{location}: the prefix length of {text} is above {field.width}")
            mask = full & ~(full >> bits)
            return Masked(value_of(prefix, field.width, location) & mask, mask)
        case MatchKind.RANGE:
            low, high = (value_of(part, field.width, location) for part in _parts(text, "->", location))
            if low > high:
                raise _bad(f"{location}: {text} starts after its end")
            return Between(low, high)
    value, mask = (value_of(part, field.width, location) for part in _parts(text, "&&&", location))
    if field.kind is MatchKind.OPTIONAL and mask not in (0, full):
        raise _bad(f"{location}: the field is optional: expected mask 0x0 or {full:#x}, got {text}")
    return Masked(value & mask, mask)


def match_text(field: MatchField, match: Match) -> str:
    match match:
        case Between(low, high):
            return f"{low:#x}->{high:#x}"
        case Masked(value, mask) if field.kind is MatchKind.LPM:
            return f"{value:#x}/{mask.bit_count()}"
        case Masked(value, mask):
            return f"{value:#x}&&&{mask:#x}"
    return f"{match:#x}"


def matches_of(table: str, fields: Sequence[MatchField], texts: Sequence[str]) -> tuple[Match, ...]:
    if len(texts) != len(fields):
        raise _bad(f"table {table} needs {len(fields)} key fields, not {len(texts)}")
    return tuple(match_of(field, text) for field, text in zip(fields, texts, strict=True))


def _parts(text: str, between: str, location: str) -> tuple[str, str]:
    first, found, second = text.partition(between)
    if not found:
        raise _bad(f"{location}: expected two parts separated by {between}, got {text!r}")
    return first, second


def _bad(text: str) -> RuntimeRefusal:
    return RuntimeRefusal(TABLE, "BAD_MATCH_KEY", text)
