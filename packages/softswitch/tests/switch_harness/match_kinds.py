"""The program of `match_kinds.p4`: packets, entries of every kind, and match fields that are malformed."""

from __future__ import annotations

from random import Random

from finsy.proto import p4r

from softswitch.ir import Masked, Match, RangeMatch
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_harness import PROGRAMS

MATCH_KINDS = PROGRAMS / "match_kinds"
"""The compiled program, without suffix."""

PREFIXES = [0x0A000000, 0x0A0B0000, 0x0A0B0C0D, 0xC0A80000, 0]
WIDE = [0, 1, 1 << 95, (1 << 96) - 1, 0xABCD << 60]
WIDE_MASKS = [0, 1, (1 << 96) - 1, 0xFFFF << 60]


def probe(prefix: int, exact: int, ranged: int, small: int, wide: int) -> bytes:
    """A packet with these keys; what matches is added up in its last eight bytes."""
    parts = ((prefix, 4), (exact, 2), (ranged, 2), (small, 1), (wide, 12), (0, 8))
    return b"".join(value.to_bytes(size, "big") for value, size in parts)


def masked(value: int, mask: int) -> Masked:
    return Masked(value & mask, mask)


def between(one: int, other: int) -> RangeMatch:
    return RangeMatch(min(one, other), max(one, other))


def random_probe(random: Random) -> bytes:
    prefix = random.choice([*PREFIXES, random.getrandbits(32)])
    return probe(prefix, random.randrange(2), random.randrange(110), random.randrange(4), random.choice(WIDE))


def random_key(random: Random, kind: str) -> tuple[Match, ...]:
    """A key of table `<kind>_table`, for keys that `random_probe` draws."""
    wide, small = random.choice(WIDE), random.randrange(4)
    if kind == "lpm":
        length = random.choice([0, 1, 8, 9, 16, 31, 32])
        return random.randrange(2), masked(random.choice(PREFIXES), (1 << 32) - (1 << (32 - length)))
    if kind == "ternary":
        return masked(wide, random.choice(WIDE_MASKS)), masked(small, random.choice([0, 0xFF]))
    low, high = sorted((random.randrange(110), random.randrange(110)))
    first, last = sorted((wide, random.choice(WIDE)))
    return RangeMatch(low, high), masked(small, random.choice([0, 1, 3, 0xFF])), RangeMatch(first, last)


def random_entries(random: Random, kind: str, count: int) -> list[EntryWrite]:
    """Draw inserts of different keys, with distinct priorities in tables with priorities."""
    keys = {random_key(random, kind) for _ in range(count)}
    priorities = random.sample(range(1, 1000), len(keys))
    return [
        EntryWrite(
            Change.INSERT,
            f"Pick.{kind}_table",
            key,
            ActionCall(f"Pick.{kind}_hit", (priority,)),
            0 if kind == "lpm" else priority,
        )
        for key, priority in zip(sorted(keys), priorities, strict=True)
    ]


def _lpm(value: bytes, length: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=2, lpm=p4r.FieldMatch.LPM(value=value, prefix_len=length))


def _ternary(identity: int, value: bytes, mask: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=identity, ternary=p4r.FieldMatch.Ternary(value=value, mask=mask))


def _optional(value: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=2, optional=p4r.FieldMatch.Optional(value=value))


def _range(identity: int, low: bytes, high: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=identity, range=p4r.FieldMatch.Range(low=low, high=high))


MALFORMED: list[tuple[str, p4r.FieldMatch, str]] = [
    (
        "lpm",
        _lpm(b"\0", 0),
        "hdr.probe.prefix: the prefix length is 0; to match any value, leave the field out",
    ),
    ("lpm", _lpm(b"\x0a\0\0\0", 33), "hdr.probe.prefix: expected a prefix length from 1 to 32, got 33"),
    ("lpm", _lpm(b"\x0a\0\0\0", -1), "hdr.probe.prefix: expected a prefix length from 1 to 32, got -1"),
    (
        "lpm",
        _lpm(b"\x0a\0\0\1", 8),
        "hdr.probe.prefix: expected 0xa000000, with no bits after the prefix, got 0xa000001/8",
    ),
    ("lpm", _lpm(b"\1\0\0\0\0", 8), "hdr.probe.prefix: 0x0100000000 does not fit in bit<32>"),
    ("lpm", _ternary(2, b"\1", b"\1"), "hdr.probe.prefix: expected a match of kind lpm, got ternary"),
    ("lpm", p4r.FieldMatch(field_id=2), "hdr.probe.prefix: expected a match of kind lpm, got none"),
    (
        "ternary",
        _ternary(1, b"\0", b"\0"),
        "hdr.probe.wide: the mask is 0; to match any value, leave the field out",
    ),
    (
        "ternary",
        _ternary(1, b"\5", b"\1"),
        "hdr.probe.wide: expected 0x1, with no bits outside the mask 0x1, got 0x5",
    ),
    (
        "ternary",
        _ternary(1, b"\0", b"\1" + bytes(12)),
        "hdr.probe.wide: 0x01000000000000000000000000 does not fit in bit<96>",
    ),
    ("ternary", _optional(b"\1\0"), "hdr.probe.small: 0x0100 does not fit in bit<8>"),
    (
        "ternary",
        _ternary(2, b"\1", b"\xff"),
        "hdr.probe.small: expected a match of kind optional, got ternary",
    ),
    ("range", _range(1, b"\x09", b"\x05"), "hdr.probe.ranged: low 0x9 is above high 0x5"),
    (
        "range",
        _range(1, b"\0\0", b"\xff\xff"),  # BMv2 takes it for another range where low is shorter than high
        "hdr.probe.ranged: the range is every value; to match any value, leave the field out",
    ),
    ("range", _range(1, b"\0", b"\1\0\0"), "hdr.probe.ranged: 0x010000 does not fit in bit<16>"),
    ("range", _range(2, b"\0", b"\1"), "hdr.probe.small: expected a match of kind ternary, got range"),
]
"""Table, a match field that it refuses as INVALID_ARGUMENT, and with which words behind "match field"."""


def replace_match(entry: p4r.TableEntry, match: p4r.FieldMatch) -> None:
    """Give an entry this match field, in place of its own."""
    others = [other for other in entry.match if other.field_id != match.field_id]
    entry.ClearField("match")
    entry.match.extend([*others, match])
