"""The entries of a table as the server knows them: what writes are judged by and reads answered from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from finsy.proto import p4r
from grpc import StatusCode

from softswitch.ir import Invocation, Match, Program
from softswitch.p4runtime.p4info import P4Info, Table
from softswitch.p4runtime.status import Refusal, denied, invalid
from softswitch.pipeline import ActionCall


class Key(NamedTuple):
    """What tells an entry from others of its table; the priority is 0 where a table has none."""

    matches: tuple[Match, ...]
    priority: int = 0


DEFAULT = Key(())
"""The key of a table's default entry."""


class Entry(NamedTuple):
    """A table entry's action and the controller's two cookies."""

    action: ActionCall
    metadata: bytes = b""
    controller_metadata: int = 0


class TableStore:
    """One table: its entries by key, and its default entry."""

    def __init__(self, table: Table, program: Program) -> None:
        declared = program.tables[table.name]
        self.table = table
        self.size = declared.size
        self.has_priority = declared.has_priority
        self.entries = {
            Key(entry.key, entry.priority): Entry(_call(program, entry.invocation))
            for entry in declared.const_entries
        }
        self.initial_default = Entry(_call(program, declared.default))
        self.default: dict[Key, Entry] = {DEFAULT: self.initial_default}

    def key(self, entry: p4r.TableEntry) -> Key:
        """The key in an entry's match fields and priority."""
        priority = entry.priority
        if priority <= 0 if self.has_priority else priority:
            raise self._wrong_priority(priority)
        return Key(self.table.key.decode(entry.match), priority)

    def selected(self, wanted: p4r.TableEntry) -> Iterable[tuple[Key, Entry]]:
        """The entries of a query's match fields and priority, where it gives them (P4Runtime 1.4 §9.1.6)."""
        if wanted.match and (wanted.priority or not self.has_priority):
            key = self.key(wanted)
            return [(key, self.entries[key])] if key in self.entries else ()
        matches = self.table.key.decode(wanted.match) if wanted.match else None
        return [
            (key, entry)
            for key, entry in self.entries.items()
            if wanted.priority in (0, key.priority) and matches in (None, key.matches)
        ]

    def action(self, given: p4r.TableAction, default: bool = False) -> ActionCall:
        """The call of an action, which must be one that the table allows in entries, or as its default."""
        call = given.action
        action = (self.table.default_actions if default else self.table.entry_actions).get(call.action_id)
        if action is None:
            raise self._wrong_action(given, default)
        return ActionCall(action.name, action.params.decode([(p.param_id, p.value) for p in call.params]))

    def exists(self, key: Key) -> Refusal:
        """The refusal of an INSERT whose entry is there already."""
        return Refusal(StatusCode.ALREADY_EXISTS, f"{self._named(key)} is already there")

    def missing(self, key: Key) -> Refusal:
        """The refusal of an update or a query whose entry is not there."""
        return Refusal(StatusCode.NOT_FOUND, f"{self._named(key)} is not there")

    def full(self) -> Refusal:
        """The refusal of an INSERT into a table that holds as many entries as its declared size."""
        text = f"table {self.table.name} is full with {self.size} entries"
        return Refusal(StatusCode.RESOURCE_EXHAUSTED, text)

    def _named(self, key: Key) -> str:
        priority = f", priority {key.priority}" if self.has_priority else ""
        return f"table {self.table.name}: entry {self.table.key.show(key.matches)}{priority}"

    def _wrong_priority(self, priority: int) -> Refusal:
        if self.has_priority:
            right = f"ternary, range and optional matches need a priority of at least 1, not {priority}"
        else:
            right = f"exact and lpm matches have priority 0, not {priority}"
        return invalid(f"table {self.table.name}: {right}")

    def _wrong_action(self, given: p4r.TableAction, default: bool) -> Refusal:
        table, kind, identity = self.table, given.WhichOneof("type"), given.action.action_id
        if kind is None:
            return invalid(f"table {table.name}: the action is missing")
        if kind != "action":
            return invalid(f"table {table.name}: {kind} is given, but the table takes actions directly")
        if identity in table.entry_actions:
            name = table.entry_actions[identity].name
            return denied(f"table {table.name}: action {name} is not allowed as default action")
        if identity in table.default_actions:
            name = table.default_actions[identity].name
            return denied(f"table {table.name}: action {name} is allowed as default action only")
        allowed = table.default_actions if default else table.entry_actions
        right = ", ".join(f"{action.name} (ID {action.id})" for action in allowed.values())
        return invalid(f"table {table.name} has no action with ID {identity}; it has {right}")


def _call(program: Program, invocation: Invocation) -> ActionCall:
    return ActionCall(program.actions[invocation.action].name, invocation.args)


class Stores:
    """The stores of all tables, by table ID, at first with the program's own entries."""

    def __init__(self, p4info: P4Info, program: Program) -> None:
        self._p4info = p4info
        self._stores = {identity: TableStore(table, program) for identity, table in p4info.tables.items()}

    def __getitem__(self, table_id: int) -> TableStore:
        store = self._stores.get(table_id)
        if store is None:
            raise invalid(f"no table has ID {table_id}")
        return store

    def selected(self, wanted: p4r.TableEntry) -> list[TableStore]:
        """The tables that a query is about: the one with its table ID, or all where that is 0."""
        if wanted.table_id:
            return [self[wanted.table_id]]
        if wanted.match:
            raise invalid("match fields are given without a table ID")
        return list(self._stores.values())

    def action_id(self, entry: Entry) -> int:
        """The P4Info ID of an entry's action."""
        return self._p4info.actions[entry.action.name].id

    def describe(self, store: TableStore, key: Key, message: p4r.TableEntry) -> None:
        """Fill in which entry it is: table, match fields and priority."""
        message.table_id, message.priority = store.table.id, key.priority
        store.table.key.encode(key.matches, message)

    def fill(self, entry: Entry, message: p4r.TableEntry) -> None:
        """Fill in what an entry holds: action and cookies."""
        action = self._p4info.actions[entry.action.name]
        call = message.action.action
        call.action_id = action.id
        for identity, value in action.params.encode(entry.action.args):
            call.params.add(param_id=identity, value=value)
        message.metadata, message.controller_metadata = entry.metadata, entry.controller_metadata
