"""Entries of tables, members and groups of action profiles. BMv2: match_tables.cpp, action_profile.cpp.

Fixed here where BMv2 depends on the order of its search: of entries of equal rank the oldest wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from softswitch import ir
from softswitch.errors import EntryExists, EntryMissing, StateError, TableFull
from softswitch.interpreter.expressions import evaluate
from softswitch.interpreter.meters import Meter
from softswitch.interpreter.packet import Packet
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryWrite,
    StoredEntry,
    UseGroup,
    UseMember,
)

Key = tuple[ir.Match, ...]
Doing = ir.Invocation | UseMember | UseGroup
"""What an entry does, its action resolved."""


@dataclass
class Entry:
    """One entry with its direct counter and meter, and when it was last hit."""

    key: Key
    priority: int
    action: EntryAction
    doing: Doing
    count: list[int] = field(default_factory=lambda: [0, 0])
    meter: Meter = field(default_factory=Meter)
    last_hit: int = 0


class TableState:
    """The entries of one table by key and rank."""

    def __init__(self, program: ir.Program, table: ir.Table) -> None:
        self._program = program
        self._table = table
        self._entries: dict[tuple[Key, int], Entry] = {}
        for entry in table.const_entries:
            call = ActionCall(program.actions[entry.invocation.action].name, entry.invocation.args)
            self._put(entry.key, entry.priority, call)
        self.default: Doing | None = table.default

    def look_up(self, packet: Packet) -> Entry | None:
        """The matching entry of the highest rank."""
        if not self._table.key:
            return None
        values = tuple(_key_value(packet, part) for part in self._table.key)
        if self._table.is_exact:
            return self._entries.get((values, self._table.rank(values, 0)))
        matching = [
            (rank, entry)
            for (key, rank), entry in self._entries.items()
            if all(_matches(match, value) for match, value in zip(key, values, strict=True))
        ]
        return max(matching, key=lambda found: found[0])[1] if matching else None

    def write(self, write: EntryWrite) -> None:
        """Apply an update, or raise and change nothing."""
        name = self._table.name
        found = self.find(write.key, write.priority)
        if write.change is Change.INSERT and found:
            raise EntryExists(f"table {name} has an entry {write.key} already")
        if write.change is not Change.INSERT and not found:
            raise EntryMissing(f"table {name} has no entry {write.key}")
        if write.change is Change.DELETE:
            del self._entries[self._place(write.key, write.priority)]
            return
        if write.change is Change.INSERT and len(self._entries) >= self._table.size:
            raise TableFull(f"table {name} is full: it holds its {self._table.size} entries")
        assert write.action is not None
        self._put(write.key, write.priority, write.action)

    def _put(self, key: Key, priority: int, action: EntryAction) -> None:
        """Add an entry, or change what it does; its counter and meter stay."""
        place = self._place(key, priority)
        new = Entry(place[0], priority, action, self._resolved(action))
        entry = self._entries.setdefault(place, new)
        entry.action, entry.doing = new.action, new.doing

    def _place(self, key: Key, priority: int) -> tuple[Key, int]:
        masked = tuple(part.masked(match) for part, match in zip(self._table.key, key, strict=True))
        return masked, self._table.rank(key, priority)

    def set_default(self, action: EntryAction | None) -> None:
        """Replace the default action; None restores the program's own."""
        self.default = self._table.default if action is None else self._resolved(action)

    def entry(self, key: Key, priority: int) -> Entry:
        """An entry by what it matches, or `EntryMissing`."""
        found = self.find(key, priority)
        if found is None:
            raise EntryMissing(f"table {self._table.name} has no entry {key}")
        return found

    def find(self, key: Key, priority: int) -> Entry | None:
        """An entry by what it matches."""
        return self._entries.get(self._place(key, priority))

    def stored(self, entry: Entry) -> StoredEntry:
        """An entry as the control plane reads it."""
        counter = CounterValue(*entry.count) if self._table.has_counter else CounterValue(0, 0)
        return StoredEntry(entry.key, entry.action, entry.priority, counter, entry.last_hit)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        return iter(self._entries.values())

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def _resolved(self, action: EntryAction) -> Doing:
        if isinstance(action, ActionCall) != (self._table.profile is None):
            wanted = "an action" if self._table.profile is None else "a member or group"
            raise StateError(f"an entry of table {self._table.name} needs {wanted}")
        if isinstance(action, ActionCall):
            return self._program.invocation(self._table, action.name, action.args)
        return action


def _key_value(packet: Packet, part: ir.KeyField) -> int:
    """What a key field matches against: a bit pattern, without sign."""
    if isinstance(part.source, ir.IsValid):
        return evaluate(packet, part.source)
    bits = packet.bits(part.source)
    return bits if part.mask is None else bits & part.mask


def _matches(match: ir.Match, value: int) -> bool:
    match match:
        case ir.Masked(wanted, mask):
            return value & mask == wanted
        case ir.Between(low, high):
            return low <= value <= high
    return value == match


class ProfileState:
    """Members and groups of one action profile."""

    def __init__(self, program: ir.Program, number: int) -> None:
        self._program = program
        self._profile = program.profiles[number]
        self._tables = [table for table in program.tables.values() if table.profile == number]
        self._members: dict[int, ActionCall] = {}
        self._groups: dict[int, tuple[int, ...]] = {}

    def choose(self, doing: UseMember | UseGroup, selected: int) -> ActionCall | None:
        """The action of a member, or of the member that hash `selected` picks; None of an empty group."""
        if isinstance(doing, UseMember):
            return self._members[doing.member]
        members = self._groups[doing.group]
        return self._members[members[selected % len(members)]] if members else None

    def write_member(self, member: int, action: ActionCall | None) -> None:
        """Add, change or remove a member."""
        if action is None:
            del self._members[member]
            return
        self._check_action(action)
        self._check_room("member", member, len(self._members), member in self._members)
        self._members[member] = action

    def write_group(self, group: int, members: tuple[int, ...] | None) -> None:
        """Add, change or remove a group."""
        if members is None:
            del self._groups[group]
            return
        self._check_room("group", group, len(self._groups), group in self._groups)
        self._groups[group] = members

    def _check_action(self, action: ActionCall) -> None:
        """All tables of a profile have the same actions, under numbers of their own."""
        for table in self._tables:
            self._program.invocation(table, action.name, action.args)

    def _check_room(self, kind: str, number: int, held: int, known: bool) -> None:
        if not known and held >= self._profile.size:
            raise TableFull(
                f"action profile {self._profile.name} has no room for {kind} {number}: "
                f"it holds its {self._profile.size} {kind}s"
            )
