"""Table entries (BMv2: match_tables.cpp). Of matches of equal rank the oldest wins; BMv2 has no rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from softswitch import ir
from softswitch.checks import check_action, check_default, table_full
from softswitch.errors import EntryExists, EntryMissing
from softswitch.interpreter.expressions import evaluate
from softswitch.interpreter.meters import MeterCell
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.profiles import ProfileState
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    StoredEntry,
    UseGroup,
    UseMember,
)

Key = tuple[ir.Match, ...]
ResolvedAction = ir.Invocation | UseMember | UseGroup


@dataclass
class Entry:
    """One entry with its direct counter and meter, and the time of its last hit in µs since start."""

    key: Key
    priority: int
    action: EntryAction
    resolved_action: ResolvedAction
    count: list[int] = field(default_factory=lambda: [0, 0])  # packets, bytes
    meter: MeterCell = field(default_factory=MeterCell)
    last_hit: int = 0


class TableState:
    def __init__(self, program: ir.Program, table: ir.Table, profile: ProfileState | None = None) -> None:
        self._program = program
        self._table = table
        self._profile = profile
        self._entries: dict[tuple[Key, int], Entry] = {}  # by masked key and rank, oldest first
        for entry in table.const_entries:
            call = ActionCall(program.actions[entry.invocation.action].name, entry.invocation.args)
            self._put_entry(entry.key, entry.priority, call)
        self.default: ResolvedAction | None = table.default

    def look_up(self, packet: Packet) -> Entry | None:
        key_values = tuple(_key_value(packet, part) for part in self._table.key)
        entry = self._best_match(key_values) if key_values else None
        entry_key = None if entry is None else EntryKey(self._table.name, entry.key, entry.priority)
        packet.observer.looked_up(packet, self._table, key_values, entry_key)
        return entry

    def _best_match(self, values: tuple[int, ...]) -> Entry | None:
        if self._table.is_exact:
            return self._entries.get((values, self._table.rank(values, priority=0)))
        matching = [
            (rank, entry)
            for (key, rank), entry in self._entries.items()
            if all(_key_matches(match, value) for match, value in zip(key, values, strict=True))
        ]
        # Of equal ranks, `max` returns the first.
        return max(matching, key=lambda ranked: ranked[0])[1] if matching else None

    def check(self, write: EntryWrite) -> None:
        if write.action is not None:
            self._resolve(write.action)

    def write(self, write: EntryWrite) -> None:
        """Apply an update; an exception means that nothing has changed."""
        name = self._table.name
        entry = self.find(write.key, write.priority)
        if write.change is Change.INSERT and entry:
            raise EntryExists(f"table {name} has an entry {write.key} already")
        if write.change is not Change.INSERT and not entry:
            raise EntryMissing(f"table {name} has no entry {write.key}")
        if write.change is Change.DELETE:
            del self._entries[self._identity(write.key, write.priority)]
            return
        if write.change is Change.INSERT and len(self._entries) >= self._table.size:
            raise table_full(self._table)
        assert write.action is not None
        self._put_entry(write.key, write.priority, write.action)

    def _put_entry(self, key: Key, priority: int, action: EntryAction) -> None:
        """Add an entry, or change its action; its counter and meter are unchanged."""
        identity = self._identity(key, priority)
        masked_key, _ = identity
        new_entry = Entry(masked_key, priority, action, self._resolve(action))
        entry = self._entries.setdefault(identity, new_entry)
        entry.action, entry.resolved_action = new_entry.action, new_entry.resolved_action

    def _identity(self, key: Key, priority: int) -> tuple[Key, int]:
        masked_key = tuple(part.mask_match(match) for part, match in zip(self._table.key, key, strict=True))
        return masked_key, self._table.rank(key, priority)

    def set_default(self, action: EntryAction | None) -> None:
        check_default(self._table, action)
        self.default = self._table.default if action is None else self._resolve(action)

    def entry(self, key: Key, priority: int) -> Entry:
        entry = self.find(key, priority)
        if entry is None:
            raise EntryMissing(f"table {self._table.name} has no entry {key}")
        return entry

    def find(self, key: Key, priority: int) -> Entry | None:
        return self._entries.get(self._identity(key, priority))

    def stored_entry(self, entry: Entry) -> StoredEntry:
        counter = CounterValue(*entry.count) if self._table.has_counter else CounterValue(0, 0)
        return StoredEntry(entry.key, entry.action, entry.priority, counter, entry.last_hit)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def _resolve(self, action: EntryAction) -> ResolvedAction:
        resolved_action = check_action(self._program, self._table, action)
        if not isinstance(resolved_action, ir.Invocation):
            assert self._profile is not None
            self._profile.check_use(resolved_action)
        return resolved_action


def _key_value(packet: Packet, part: ir.KeyField) -> int:
    """Return the unsigned bit pattern to which a key field is compared."""
    if isinstance(part.source, ir.IsValid):
        return evaluate(packet, part.source)
    if not packet.valid[part.source.header]:
        return 0
    bits = packet.bits(part.source)
    return bits if part.mask is None else bits & part.mask


def _key_matches(match: ir.Match, value: int) -> bool:
    match match:
        case ir.Masked(bits, mask):
            return value & mask == bits
        case ir.RangeMatch(low, high):
            return low <= value <= high
    return value == match
