"""Conversion between text and matches or values."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.ir import Masked, Match, MatchKind, RangeMatch
from softswitch.p4runtime.codecs.matches import MatchField
from softswitch.runtime.refusals import TABLE, RuntimeRefusal

_PREFIX_LENGTH_BITS = 16  # of the number: enough for the length of any prefix


def parse_value(text: str, width: int, location: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise _match_error(f"{location}: expected a number, got {text!r}") from None
    if value < 0 or value >> width:
        raise _match_error(f"{location}: {text} does not fit in bit<{width}>")
    return value


def parse_match(field: MatchField, text: str) -> Match:
    location = f"match field {field.name}"
    full_mask = field.full_mask
    match field.kind:
        case MatchKind.EXACT:
            return parse_value(text, field.width, location)
        case MatchKind.LPM:
            prefix, length = _split_pair(text, "/", location)
            prefix_bits = parse_value(length, _PREFIX_LENGTH_BITS, location)
            if prefix_bits > field.width:
                raise _match_error(f"{location}: the prefix length of {text} is above {field.width}")
            mask = full_mask & ~(full_mask >> prefix_bits)
            return Masked(parse_value(prefix, field.width, location) & mask, mask)
        case MatchKind.RANGE:
            low, high = (
                parse_value(part, field.width, location) for part in _split_pair(text, "->", location)
            )
            if low > high:
                raise _match_error(f"{location}: {text} starts after its end")
            return RangeMatch(low, high)
    # Ternary or optional.
    value, mask = (parse_value(part, field.width, location) for part in _split_pair(text, "&&&", location))
    if field.kind is MatchKind.OPTIONAL and mask not in (0, full_mask):
        raise _match_error(
            f"{location}: the field is optional: expected mask 0x0 or {full_mask:#x}, got {text}"
        )
    return Masked(value & mask, mask)


def format_match(kind: MatchKind, match: Match) -> str:
    match match:
        case RangeMatch(low, high):
            return f"{low:#x}->{high:#x}"
        case Masked(value, mask) if kind is MatchKind.LPM:
            return f"{value:#x}/{mask.bit_count()}"
        case Masked(value, mask):
            return f"{value:#x}&&&{mask:#x}"
    return f"{match:#x}"


def parse_matches(table: str, fields: Sequence[MatchField], texts: Sequence[str]) -> tuple[Match, ...]:
    if len(texts) != len(fields):
        raise _match_error(f"table {table} needs {len(fields)} key fields, not {len(texts)}")
    return tuple(parse_match(field, text) for field, text in zip(fields, texts, strict=True))


def _split_pair(text: str, separator: str, location: str) -> tuple[str, str]:
    first, found_separator, second = text.partition(separator)
    if not found_separator:
        raise _match_error(f"{location}: expected two parts separated by {separator}, got {text!r}")
    return first, second


def _match_error(text: str) -> RuntimeRefusal:
    return RuntimeRefusal(TABLE, "BAD_MATCH_KEY", text)
