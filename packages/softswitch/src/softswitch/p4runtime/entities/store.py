"""The server's state of tables besides the entries in the pipeline, and errors about entries."""

from __future__ import annotations

from typing import NamedTuple

from grpc import StatusCode

from softswitch.ir import Invocation, Match, Program
from softswitch.messages import pluralize
from softswitch.p4runtime.entities.profiles import ProfileStore, ProfileStores
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import P4Info, TableInfo
from softswitch.p4runtime.status import Refusal, find_by_id, invalid
from softswitch.pipeline import ActionCall, EntryAction, EntryKey, MeterConfig


class Key(NamedTuple):
    """The key of an entry in its table; the priority is 0 if the table has none."""

    matches: tuple[Match, ...]
    priority: int = 0


class Extras(NamedTuple):
    """An entry's parts outside the pipeline: cookies, idle timeout, meter."""

    metadata: bytes = b""
    controller_metadata: int = 0
    idle_timeout_ns: int = 0
    meter: MeterConfig | None = None
    written_us: int = 0  # time of the last write, in µs since start; 0 in a table without idle timeouts


NO_EXTRAS = Extras()

DEFAULT_KEY = Key(())


class DefaultEntry(NamedTuple):
    action: EntryAction | None
    extras: Extras = NO_EXTRAS


class TableStore:
    """The state of one table; `extras` has only values that differ from `NO_EXTRAS`.

    `is_plain` is whether an entry that has only matches and an action has no state outside the pipeline.
    """

    def __init__(self, table: TableInfo, program: Program, profiles: ProfileStores) -> None:
        program_table = program.tables[table.name]
        self.table = table
        self.name = table.name
        self.size = program_table.size
        self.has_priority = program_table.has_priority
        self.profile: ProfileStore | None = profiles[table.profile.id] if table.profile else None
        self.extras: dict[Key, Extras] = {}
        self.initial_default = DefaultEntry(_make_action_call(program, program_table.default))
        # A dictionary of one entry, because a batch can restore dictionaries (`Batch.put`).
        self.default: dict[Key, DefaultEntry] = {DEFAULT_KEY: self.initial_default}
        self.is_plain = bool(program_table.key) and not (
            self.has_priority
            or table.is_const
            or table.profile
            or table.meter is not None
            or table.has_idle_timeout
            or table.key.has_strings
            or any(action.params.has_strings for action in table.entry_actions.values())
        )

    def decode_key(self, entry: p4r.TableEntry) -> Key:
        priority = entry.priority
        is_valid = priority > 0 if self.has_priority else priority == 0
        if not is_valid:
            raise self._wrong_priority_error(priority)
        return Key(self.table.key.decode(entry.match), priority)

    def entry_key(self, key: Key) -> EntryKey:
        return EntryKey(self.name, key.matches, key.priority)

    def fill_key(self, key: Key, message: p4r.TableEntry) -> None:
        message.table_id, message.priority = self.table.id, key.priority
        self.table.key.encode(key.matches, message)

    def fill_extras(self, extras: Extras, message: p4r.TableEntry) -> None:
        message.metadata, message.controller_metadata = extras.metadata, extras.controller_metadata
        message.idle_timeout_ns = extras.idle_timeout_ns

    def exists_error(self, key: Key) -> Refusal:
        return Refusal(StatusCode.ALREADY_EXISTS, f"{self._format_entry(key)} is already there")

    def missing_error(self, key: Key) -> Refusal:
        return Refusal(StatusCode.NOT_FOUND, f"{self._format_entry(key)} is not there")

    def full_error(self) -> Refusal:
        text = f"table {self.name} is full with {pluralize(self.size, 'entry', 'entries')}"
        return Refusal(StatusCode.RESOURCE_EXHAUSTED, text)

    def _format_entry(self, key: Key) -> str:
        priority = f", priority {key.priority}" if self.has_priority else ""
        return f"table {self.name}: entry {self.table.key.show(key.matches)}{priority}"

    def _wrong_priority_error(self, priority: int) -> Refusal:
        if self.has_priority:
            expected = f"ternary, range and optional matches need a priority of at least 1, not {priority}"
        else:
            expected = f"exact and lpm matches have priority 0, not {priority}"
        return invalid(f"table {self.name}: {expected}")


class Stores:
    def __init__(self, p4info: P4Info, program: Program, profiles: ProfileStores) -> None:
        self._stores = {
            table_id: TableStore(table, program, profiles)
            for table_id, table in p4info.tables.items()
            if table.name in program.tables
        }
        self._store_by_name = {store.name: store for store in self._stores.values()}

    def __getitem__(self, table_id: int) -> TableStore:
        return find_by_id(self._stores, table_id, "table")

    def find(self, table_id: int) -> TableStore | None:
        return self._stores.get(table_id)

    def get_by_name(self, name: str) -> TableStore:
        return self._store_by_name[name]

    def find_by_name(self, name: str) -> TableStore | None:
        return self._store_by_name.get(name)

    def select(self, query: p4r.TableEntry) -> list[TableStore]:
        if query.table_id:
            return [self[query.table_id]]
        if query.match:
            raise invalid("match fields are given without a table ID")
        return list(self._stores.values())


def _make_action_call(program: Program, invocation: Invocation | None) -> ActionCall | None:
    if invocation is None:
        return None
    return ActionCall(program.actions[invocation.action].name, invocation.args)
