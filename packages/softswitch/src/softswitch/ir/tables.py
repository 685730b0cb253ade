"""Tables with their entries, action profiles, and the controls that apply tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from softswitch.ir.expressions import Expression, FieldRef, IsValid


class MatchKind(Enum):
    """Kinds of matches of a key field; the enum's value is BMv2's spelling."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    OPTIONAL = "optional"
    RANGE = "range"

    @property
    def takes_priority(self) -> bool:
        """Whether entries of a table with such a field have a priority (P4Runtime 1.4 §9.1)."""
        return self not in (MatchKind.EXACT, MatchKind.LPM)


class Masked(NamedTuple):
    """Matches keys equal to `value` under `mask` (prefix, ternary, optional). `value & ~mask` is 0."""

    value: int
    mask: int


class RangeMatch(NamedTuple):
    """Matches keys from `low` to `high`, both included."""

    low: int
    high: int


Match = int | Masked | RangeMatch
"""Match of an entry on one key field; an integer is an exact match."""


@dataclass(frozen=True, slots=True)
class KeyField:
    """A match field. The value of a field of an invalid header is taken as 0 (BMv2: match_units.cpp)."""

    name: str
    source: FieldRef | IsValid
    width: int
    kind: MatchKind = MatchKind.EXACT
    mask: int | None = None
    """Bits of the source to compare, if the program applies a mask; None compares all."""

    def mask_match(self, match: Match) -> Match:
        """Return the match with its value masked. BMv2 does not mask upper bounds of ranges."""
        if self.mask is None:
            return match
        match match:
            case Masked(value, mask):
                return Masked(value & self.mask, mask)
            case RangeMatch(low, high):
                return RangeMatch(low & self.mask, high)
        return match & self.mask


@dataclass(frozen=True, slots=True)
class ConstEntry:
    """A constant entry; `priority` is P4Runtime's (the larger wins), 0 if the table has none."""

    key: tuple[Match, ...]
    priority: int
    invocation: Invocation


@dataclass(frozen=True, slots=True)
class Invocation:
    action: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DirectMeter:
    """The direct meter of a table, whose colour is stored before the action runs."""

    counts_bytes: bool
    target: FieldRef


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `next_nodes` names the node that follows each action, by action; None ends the control.

    Entries of a table with a `profile` refer to a member or group of that action profile instead of an
    action. Without a default action a miss does nothing, and `next_without_action` follows.
    """

    name: str
    key: tuple[KeyField, ...]
    actions: tuple[int, ...]
    default: Invocation | None
    default_is_const: bool
    const_entries: tuple[ConstEntry, ...]
    size: int
    has_counter: bool
    next_nodes: dict[int, str | None]
    next_on_hit: str | None
    next_on_miss: str | None
    branches_on_hit: bool  # whether the node after a hit or miss follows, and not that of `next_nodes`
    next_without_action: str | None = None
    profile: int | None = None
    meter: DirectMeter | None = None
    has_idle_timeout: bool = False
    is_immutable: bool = False  # whether the program fixes the entries (`const entries`)
    location: str = ""

    @property
    def is_exact(self) -> bool:
        return all(part.kind is MatchKind.EXACT for part in self.key)

    @property
    def has_priority(self) -> bool:
        """Whether entries have a priority; otherwise the longest prefix wins."""
        return any(part.kind.takes_priority for part in self.key)

    def rank(self, key: tuple[Match, ...], priority: int) -> int:
        """Return the rank of an entry, at least 1; the matching entry with the largest rank wins."""
        prefixes = (match.mask.bit_count() for match in key if isinstance(match, Masked))
        return 1 + (priority if self.has_priority else sum(prefixes))


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """A table of members, each an action; with a `selector` (a calculation), also of groups of members."""

    name: str
    size: int  # maximum number of members, and of groups
    selector: int | None


@dataclass(frozen=True, slots=True)
class Conditional:
    name: str
    condition: Expression
    if_true: str | None
    if_false: str | None
    location: str = ""
    text: str = ""
    """The condition's source text, as far as p4c quotes it."""


@dataclass(frozen=True, slots=True)
class Control:
    name: str
    start: str | None
    nodes: dict[str, Table | Conditional]
