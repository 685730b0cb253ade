"""What the server keeps of a table beside its entries in the pipeline, and what errors say of them."""

from __future__ import annotations

from typing import NamedTuple

from grpc import StatusCode

from softswitch.ir import Invocation, Match, Program
from softswitch.messages import pluralize
from softswitch.p4runtime.entities.profiles import Profiles, ProfileStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import P4Info, TableInfo
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ActionCall, EntryAction, EntryKey, MeterConfig


class Key(NamedTuple):
    """What tells an entry from others of its table; the priority is 0 where a table has none."""

    matches: tuple[Match, ...]
    priority: int = 0


class Note(NamedTuple):
    """What an entry has that packets do not meet: the controller's cookies, and how it is metered and aged.

    `since` is when it was last written, in µs since start.
    """

    metadata: bytes = b""
    controller_metadata: int = 0
    idle_timeout_ns: int = 0
    meter: MeterConfig | None = None
    since: int = 0


PLAIN = Note()
"""The note of an entry that has none."""

DEFAULT = Key(())
"""The key of a table's default entry."""


class DefaultEntry(NamedTuple):
    """What a miss does, None for nothing, and the controller's cookies."""

    action: EntryAction | None
    note: Note = PLAIN


class TableStore:
    """One table. Notes are of the entries that need one.

    Where the table `is_plain`, an entry of match and action alone needs nothing beside what the pipeline has.
    """

    def __init__(self, table: TableInfo, program: Program, profiles: Profiles) -> None:
        declared = program.tables[table.name]
        self.table = table
        self.name = table.name
        self.size = declared.size
        self.has_priority = declared.has_priority
        self.profile: ProfileStore | None = profiles[table.profile.id] if table.profile else None
        self.notes: dict[Key, Note] = {}
        self.initial_default = DefaultEntry(_call(program, declared.default))
        self.default: dict[Key, DefaultEntry] = {DEFAULT: self.initial_default}
        self.is_plain = bool(declared.key) and not (
            self.has_priority
            or table.is_const
            or table.profile
            or table.meter is not None
            or table.has_idle_timeout
        )

    def key(self, entry: p4r.TableEntry) -> Key:
        """The key in an entry's match fields and priority."""
        priority = entry.priority
        if priority <= 0 if self.has_priority else priority:
            raise self._wrong_priority(priority)
        return Key(self.table.key.decode(entry.match), priority)

    def entry_key(self, key: Key) -> EntryKey:
        """The key by which the pipeline knows an entry."""
        return EntryKey(self.name, key.matches, key.priority)

    def describe(self, key: Key, message: p4r.TableEntry) -> None:
        """Fill in which entry it is: table, match fields and priority."""
        message.table_id, message.priority = self.table.id, key.priority
        self.table.key.encode(key.matches, message)

    def note(self, note: Note, message: p4r.TableEntry) -> None:
        """Fill in the controller's cookies and the idle timeout."""
        message.metadata, message.controller_metadata = note.metadata, note.controller_metadata
        message.idle_timeout_ns = note.idle_timeout_ns

    def exists(self, key: Key) -> Refusal:
        """The refusal of an INSERT whose entry is there already."""
        return Refusal(StatusCode.ALREADY_EXISTS, f"{self._named(key)} is already there")

    def missing(self, key: Key) -> Refusal:
        """The refusal of an update or a query whose entry is not there."""
        return Refusal(StatusCode.NOT_FOUND, f"{self._named(key)} is not there")

    def full(self) -> Refusal:
        """The refusal of an INSERT into a table that holds as many entries as its declared size."""
        text = f"table {self.name} is full with {pluralize(self.size, 'entry', 'entries')}"
        return Refusal(StatusCode.RESOURCE_EXHAUSTED, text)

    def _named(self, key: Key) -> str:
        priority = f", priority {key.priority}" if self.has_priority else ""
        return f"table {self.name}: entry {self.table.key.show(key.matches)}{priority}"

    def _wrong_priority(self, priority: int) -> Refusal:
        if self.has_priority:
            right = f"ternary, range and optional matches need a priority of at least 1, not {priority}"
        else:
            right = f"exact and lpm matches have priority 0, not {priority}"
        return invalid(f"table {self.name}: {right}")


class Stores:
    """The stores of all tables that the program has, by table ID."""

    def __init__(self, p4info: P4Info, program: Program, profiles: Profiles) -> None:
        self._stores = {
            i: TableStore(table, program, profiles)
            for i, table in p4info.tables.items()
            if table.name in program.tables
        }
        self._by_name = {store.name: store for store in self._stores.values()}

    def __getitem__(self, table_id: int) -> TableStore:
        store = self._stores.get(table_id)
        if store is None:
            raise invalid(f"no table has ID {table_id}")
        return store

    def find(self, table_id: int) -> TableStore | None:
        """The table with an ID, or None."""
        return self._stores.get(table_id)

    def named(self, name: str) -> TableStore:
        """The table with a P4 name."""
        return self._by_name[name]

    def find_named(self, name: str) -> TableStore | None:
        """The table with a P4 name, or None."""
        return self._by_name.get(name)

    def selected(self, wanted: p4r.TableEntry) -> list[TableStore]:
        """The tables that a query is about: the one with its table ID, or all where that is 0."""
        if wanted.table_id:
            return [self[wanted.table_id]]
        if wanted.match:
            raise invalid("match fields are given without a table ID")
        return list(self._stores.values())


def _call(program: Program, invocation: Invocation | None) -> ActionCall | None:
    if invocation is None:
        return None
    return ActionCall(program.actions[invocation.action].name, invocation.args)
