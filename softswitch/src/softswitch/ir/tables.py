"""Tables with their entries, and action profiles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from softswitch.ir.expressions import Expression, FieldRef, IsValid


class MatchKind(Enum):
    """How a key field is compared; the value is BMv2's spelling."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    OPTIONAL = "optional"
    RANGE = "range"

    @property
    def takes_priority(self) -> bool:
        """Entries of a table with such a field have a priority (P4Runtime 1.4 §9.1)."""
        return self not in (MatchKind.EXACT, MatchKind.LPM)


class Masked(NamedTuple):
    """Matches what is `value` under `mask` (prefix, ternary, optional). `value & ~mask` is 0."""

    value: int
    mask: int


class Between(NamedTuple):
    """Matches `low` to `high`, both included."""

    low: int
    high: int


Match = int | Masked | Between
"""What an entry asks of one key field; an integer is an exact match."""


@dataclass(frozen=True, slots=True)
class KeyField:
    """One match field: its P4 name, source, width in bits and kind."""

    name: str
    source: FieldRef | IsValid
    width: int
    kind: MatchKind = MatchKind.EXACT
    mask: int | None = None
    """Only these bits of the source count, where the program says so."""

    def masked(self, match: Match) -> Match:
        """What an entry asks of the bits that count. (BMv2 masks no upper bounds of ranges.)"""
        if self.mask is None:
            return match
        match match:
            case Masked(value, mask):
                return Masked(value & self.mask, mask)
            case Between(low, high):
                return Between(low & self.mask, high)
        return match & self.mask


@dataclass(frozen=True, slots=True)
class ConstEntry:
    """An entry of the program's own; `priority` as in P4Runtime, larger wins, 0 where the table has none."""

    key: tuple[Match, ...]
    priority: int
    invocation: Invocation


@dataclass(frozen=True, slots=True)
class Invocation:
    """An action (index into `Program.actions`) with run-time data."""

    action: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DirectMeter:
    """The meter that each entry of a table has; its colour is stored before the action runs."""

    counts_bytes: bool
    target: FieldRef


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `next_nodes` gives for each of its actions the node that follows.

    Entries of a table with a `profile` name a member or group of that action profile instead of an action.
    Without a default action a miss does nothing and goes to `next_without_action`.
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
    branches_on_hit: bool
    next_without_action: str | None = None
    profile: int | None = None
    meter: DirectMeter | None = None
    has_idle_timeout: bool = False
    is_immutable: bool = False
    location: str = ""

    @property
    def is_exact(self) -> bool:
        """All fields match exactly: an entry is found by its key alone."""
        return all(part.kind is MatchKind.EXACT for part in self.key)

    @property
    def has_priority(self) -> bool:
        """Entries carry a priority; otherwise the longest prefix wins."""
        return any(part.kind.takes_priority for part in self.key)

    def rank(self, key: tuple[Match, ...], priority: int) -> int:
        """Which of several matching entries wins: the largest, at least 1."""
        prefixes = (match.mask.bit_count() for match in key if isinstance(match, Masked))
        return 1 + (priority if self.has_priority else sum(prefixes))


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """Members (an action each), and groups of them where a `selector` calculation picks one by hash."""

    name: str
    size: int
    selector: int | None


@dataclass(frozen=True, slots=True)
class Conditional:
    """An `if` between tables."""

    name: str
    condition: Expression
    if_true: str | None
    if_false: str | None
    location: str = ""
    text: str = ""
    """The condition as the P4 source has it, as far as p4c quotes it."""


@dataclass(frozen=True, slots=True)
class Control:
    """Ingress or egress: a graph of tables and conditionals by name, entered at `start`."""

    name: str
    start: str | None
    nodes: dict[str, Table | Conditional]
