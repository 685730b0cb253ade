"""Conversion between text and matches or values."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.ir import Masked, Match, MatchKind, RangeMatch
from softswitch.p4runtime.codecs.matches import MatchField
from softswitch.runtime.refusals import TABLE, RuntimeRefusal

PREFIX_LENGTH_BITS = 16  # of the number: enough for the length of any prefix
SEPARATORS = {
    MatchKind.LPM.value: "/",
    MatchKind.TERNARY.value: "&&&",
    MatchKind.OPTIONAL.value: "&&&",
    MatchKind.RANGE.value: "->",
}
"""Text between the two parts of a match, by BMv2's name of its kind; others have one part."""


def join_match(kind: str, parts: Sequence[int]) -> str:
    """Return the notation of a match: of a value, and its prefix length, mask or upper bound."""
    value, *others = parts
    if kind == MatchKind.LPM.value:
        return f"{value:#x}/{others[0]}"
    return SEPARATORS.get(kind, "").join(f"{part:#x}" for part in parts)


def parse_value(text: str, width: int, location: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise _match_error(f"{location}: expected a number, got {text!r}") from None
    if value < 0 or value >> width:
        raise _match_error(f"{location}: {text} does not fit in bit<{width}>")
    return value


def parse_match(field: MatchField, text: str) -> Match:
    location, kind, full_mask = f"match field {field.name}", field.kind, field.full_mask
    if kind is MatchKind.EXACT:
        return parse_value(text, field.width, location)
    separator = SEPARATORS[kind.value]
    first, found_separator, second = text.partition(separator)
    if not found_separator:
        raise _match_error(f"{location}: expected two parts separated by {separator}, got {text!r}")
    value = parse_value(first, field.width, location)
    if kind is MatchKind.LPM:
        prefix_bits = parse_value(second, PREFIX_LENGTH_BITS, location)
        if prefix_bits > field.width:
            raise _match_error(f"{location}: the prefix length of {text} is above {field.width}")
        mask = full_mask & ~(full_mask >> prefix_bits)
        return Masked(value & mask, mask)
    other = parse_value(second, field.width, location)
    if kind is MatchKind.RANGE:
        if value > other:
            raise _match_error(f"{location}: {text} starts after its end")
        return RangeMatch(value, other)
    if kind is MatchKind.OPTIONAL and other not in (0, full_mask):
        raise _match_error(
            f"{location}: the field is optional: expected mask 0x0 or {full_mask:#x}, got {text}"
        )
    return Masked(value & other, other)


def format_match(kind: MatchKind, match: Match) -> str:
    match match:
        case Masked(value, mask) if kind is MatchKind.LPM:
            return join_match(kind.value, (value, mask.bit_count()))
        case Masked() | RangeMatch():
            return join_match(kind.value, match)
    return f"{match:#x}"


def parse_matches(table: str, fields: Sequence[MatchField], texts: Sequence[str]) -> tuple[Match, ...]:
    if len(texts) != len(fields):
        raise _match_error(f"table {table} needs {len(fields)} key fields, not {len(texts)}")
    return tuple(parse_match(field, text) for field, text in zip(fields, texts, strict=True))


def _match_error(text: str) -> RuntimeRefusal:
    return RuntimeRefusal(TABLE, "BAD_MATCH_KEY", text)
