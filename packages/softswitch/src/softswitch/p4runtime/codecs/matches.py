"""Conversion of match fields of table entries to `Match` and back (P4Runtime 1.4 §9.1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from softswitch.ir import Masked, Match, MatchKind, RangeMatch
from softswitch.p4runtime.codecs.fields import Field, FieldGroup
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.codecs.values import decode, encode
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid


class MatchField(NamedTuple):
    id: int
    width: int  # in bits
    name: str
    kind: MatchKind
    translation: Translation | None = None

    @property
    def value(self) -> Field:
        return Field(self.id, self.width, self.name, self.translation)

    @property
    def full_mask(self) -> int:
        return (1 << self.width) - 1

    @property
    def wildcard(self) -> Match | None:
        """The match that accepts any value, which messages omit; None for an exact field."""
        if self.kind is MatchKind.EXACT:
            return None
        return RangeMatch(0, self.full_mask) if self.kind is MatchKind.RANGE else Masked(0, 0)


class MatchKey:
    """The match fields of a table or a value set, in order; `location` ("table t") prefixes errors."""

    def __init__(self, location: str, fields: Sequence[MatchField]) -> None:
        self.fields = tuple(fields)
        self._values = FieldGroup(f"{location}, match field", [field.value for field in fields])
        self.is_translated, self.has_strings = self._values.is_translated, self._values.has_strings
        self._is_exact = all(field.kind is MatchKind.EXACT for field in fields)

    def decode(self, messages: Sequence[p4r.FieldMatch]) -> tuple[Match, ...]:
        if not self._is_exact:
            return self._decode_any_kind(messages)
        try:
            return self._values.decode([(match.field_id, match.exact.value) for match in messages])
        except Refusal:
            # This raises, with an error that also covers another kind of match.
            return self._decode_any_kind(messages)

    def decode_exact(self, messages: Sequence[p4r.FieldMatch]) -> tuple[int, ...]:
        assert self._is_exact
        return cast(tuple[int, ...], self.decode(messages))

    def encode(self, matches: Sequence[Match], entry: p4r.TableEntry | p4r.ValueSetMember) -> None:
        for field, match in zip(self.fields, matches, strict=True):
            if match != field.wildcard:
                _encode_match(field, match, entry.match.add(field_id=field.id))

    def show(self, matches: Sequence[Match]) -> str:
        """Return the text of matches for an error: `job=0x1, prefix=0xa000000/8`."""
        return ", ".join(f"{f.name}={_show_match(f, m)}" for f, m in zip(self.fields, matches, strict=True))

    def _decode_any_kind(self, messages: Sequence[p4r.FieldMatch]) -> tuple[Match, ...]:
        messages_by_id = {match.field_id: match for match in messages}
        if len(messages_by_id) < len(messages) or messages_by_id.keys() - {field.id for field in self.fields}:
            raise self._values.mismatch_error([match.field_id for match in messages])
        return tuple(self._decode_match(field, messages_by_id.get(field.id)) for field in self.fields)

    def _decode_match(self, field: MatchField, message: p4r.FieldMatch | None) -> Match:
        location = f"{self._values.location} {field.name}"
        if message is None:
            if field.wildcard is None:
                raise self._values.missing_error(field.name)
            return field.wildcard
        kind = message.WhichOneof("field_match_type")
        if kind != field.kind.value:
            raise invalid(f"{location}: expected a match of kind {field.kind.value}, got {kind or 'none'}")
        match field.kind:
            case MatchKind.EXACT:
                return field.value.decode(message.exact.value, location)
            case MatchKind.OPTIONAL:
                return Masked(field.value.decode(message.optional.value, location), field.full_mask)
            case _ if field.translation is not None:
                return _decode_translated(field, field.translation, message, location)
            case MatchKind.LPM:
                return _decode_lpm(field, message.lpm, location)
            case MatchKind.TERNARY:
                return _decode_ternary(field, message.ternary, location)
            case MatchKind.RANGE:
                return _decode_range(field, message.range, location)


def _decode_translated(
    field: MatchField, translation: Translation, message: p4r.FieldMatch, location: str
) -> Masked | RangeMatch:
    """Decode a match of one value; numbers need not have the prefixes of their values (§18.3)."""
    match field.kind:
        case MatchKind.LPM:
            value = message.lpm.value
            is_whole_value = message.lpm.prefix_len in (translation.sdn_width, field.width)
        case MatchKind.TERNARY:
            value, is_whole_value = message.ternary.value, translation.is_full_mask(message.ternary.mask)
        case _:
            value, is_whole_value = message.range.low, message.range.low == message.range.high
    if not is_whole_value:
        raise invalid(
            f"{location}: expected a match of one whole value of type {translation.name}, or of any value"
        )
    number = translation.decode(value, location)
    return RangeMatch(number, number) if field.kind is MatchKind.RANGE else Masked(number, field.full_mask)


def _decode_lpm(field: MatchField, message: p4r.FieldMatch.LPM, location: str) -> Masked:
    value, length = decode(message.value, field.width, location), message.prefix_len
    if length == 0:
        raise invalid(f"{location}: the prefix length is 0; to match any value, leave the field out")
    if not 0 < length <= field.width:
        raise invalid(f"{location}: expected a prefix length from 1 to {field.width}, got {length}")
    mask = field.full_mask & ~(field.full_mask >> length)
    if value & ~mask:
        text = f"expected {value & mask:#x}, with no bits after the prefix, got {value:#x}/{length}"
        raise invalid(f"{location}: {text}")
    padded_width = -(-field.width // 8) * 8  # rounded up to whole bytes
    if value & ((1 << (padded_width - length)) - 1):
        # PI's check_prefix_trailing_zeros (common.cpp) checks all bits of the value's bytes, as if the field
        # were that wide.
        text = f"padded to whole bytes has bits set after the first {length}"
        raise invalid(f"{location}: {value:#x}/{length} {text}; BMv2's P4Runtime server refuses it, too")
    return Masked(value, mask)


def _decode_ternary(field: MatchField, message: p4r.FieldMatch.Ternary, location: str) -> Masked:
    value, mask = decode(message.value, field.width, location), decode(message.mask, field.width, location)
    if mask == 0:
        raise invalid(f"{location}: the mask is 0; to match any value, leave the field out")
    if value & ~mask:
        text = f"expected {value & mask:#x}, with no bits outside the mask {mask:#x}, got {value:#x}"
        raise invalid(f"{location}: {text}")
    return Masked(value, mask)


def _decode_range(field: MatchField, message: p4r.FieldMatch.Range, location: str) -> RangeMatch:
    low, high = decode(message.low, field.width, location), decode(message.high, field.width, location)
    if low > high:
        raise invalid(f"{location}: low {low:#x} is above high {high:#x}")
    if (low, high) == (0, field.full_mask):
        raise invalid(f"{location}: the range is every value; to match any value, leave the field out")
    return RangeMatch(low, high)


def _encode_match(field: MatchField, match: Match, message: p4r.FieldMatch) -> None:
    to_bytes, translation = field.value.encode, field.translation
    match match:
        case RangeMatch(low, high):
            message.range.low, message.range.high = to_bytes(low), to_bytes(high)
        case Masked(value, mask) if field.kind is MatchKind.LPM:
            bits = mask.bit_count() if translation is None else translation.sdn_width or field.width
            message.lpm.value, message.lpm.prefix_len = to_bytes(value), bits
        case Masked(value, mask) if field.kind is MatchKind.TERNARY:
            message.ternary.value = to_bytes(value)
            message.ternary.mask = encode(mask) if translation is None else translation.full_mask
        case Masked(value, _):
            message.optional.value = to_bytes(value)
        case int(value):
            message.exact.value = to_bytes(value)


def _show_match(field: MatchField, match: Match) -> str:
    if match == field.wildcard:
        return "any"
    match match:
        case RangeMatch(low, high):
            return f"{low:#x}..{high:#x}"
        case Masked(value, mask) if field.kind is MatchKind.LPM:
            return f"{value:#x}/{mask.bit_count()}"
        case Masked(value, mask) if field.kind is MatchKind.TERNARY:
            return f"{value:#x}&&&{mask:#x}"
        case Masked(value, _) | int(value):
            return f"{value:#x}"
