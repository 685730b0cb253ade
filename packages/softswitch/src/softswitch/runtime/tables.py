"""Calls on tables: entries by handle or key, and the default action."""

from __future__ import annotations

from softswitch.load.tables import TOP_PRIORITY
from softswitch.p4runtime.batch import DELETE, INSERT, MODIFY
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.cells import encode_config
from softswitch.p4runtime.entities.entry_reads import idle_time
from softswitch.p4runtime.entities.profiles import ProfileStore
from softswitch.p4runtime.entities.store import DEFAULT_KEY, NO_EXTRAS, DefaultEntry, Key, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import EntryAction, StoredEntry, UseGroup, UseMember
from softswitch.runtime.actions import describe_action, fill_action, find_use
from softswitch.runtime.base import PL, RuntimeCalls, has_integer_rates, set_entry_meter, update
from softswitch.runtime.interface import IdleTimes, RuntimeEntry, TableAction
from softswitch.runtime.keys import format_match, parse_matches
from softswitch.runtime.refusals import TABLE, TABLE_CODES, RuntimeRefusal, refuse

_NS_PER_MS, _US_PER_MS = 10**6, 10**3


class TableCalls(RuntimeCalls[PL]):
    def table_add(self, table: str, match: list[str], priority: int, doing: TableAction) -> int:
        control, store = self._find_table(table)
        key = _parse_key(store, match, priority)
        if not key.matches:
            raise RuntimeRefusal(TABLE, "NO_TABLE_KEY", f"table {table} has no key, only a default action")
        (existing_entry,) = control.pipeline.tables.find([store.entry_key(key)])
        if existing_entry is not None:
            text = f"table {table} has an entry {_format_key(match, priority, store)} already"
            raise RuntimeRefusal(TABLE, "DUPLICATE_ENTRY", text)
        entry = _make_entry_message(store, key)
        fill_action(control, store, doing, entry)
        self._write(control, INSERT, entry)
        handle = control.handles.find_handle(table, key)
        assert handle is not None
        return handle

    def table_modify(self, table: str, handle: int, doing: TableAction) -> None:
        control, store = self._find_table(table)
        key = self.key_of(control, table, handle)
        entry = _make_entry_message(store, key)
        extras = store.extras.get(key, NO_EXTRAS)
        store.fill_extras(extras, entry)
        if extras.meter is not None:
            encode_config(extras.meter, entry.meter_config)
        fill_action(control, store, doing, entry)
        self._write(control, MODIFY, entry)
        if extras.meter is not None and not has_integer_rates(extras.meter):
            set_entry_meter(control, store, key, extras.meter)

    def table_delete(self, table: str, handle: int) -> None:
        control, store = self._find_table(table)
        self._write(control, DELETE, _make_entry_message(store, self.key_of(control, table, handle)))

    def table_clear(self, table: str) -> None:
        control, store = self._find_table(table)
        keys = [Key(entry.key, entry.priority) for entry in control.pipeline.tables.read(table)]
        updates = [
            p4r.Update(type=DELETE, entity=p4r.Entity(table_entry=_make_entry_message(store, key)))
            for key in keys
        ]
        for refusal in control.write(p4r.WriteRequest(updates=updates)):
            if refusal is not None:
                refuse(TABLE, refusal, TABLE_CODES)
        control.handles.reset(table)

    def table_entries(self, table: str) -> list[RuntimeEntry]:
        control, store = self._find_table(table)
        entries = {Key(entry.key, entry.priority): entry for entry in control.pipeline.tables.read(table)}
        return [
            _describe_entry(control, store, handle, entries[key])
            for handle, key in control.handles.handles_and_keys(table)
        ]

    def table_entry(self, table: str, handle: int) -> RuntimeEntry:
        control, store = self._find_table(table)
        key = self.key_of(control, table, handle)
        (entry,) = control.pipeline.tables.find([store.entry_key(key)])
        assert entry is not None
        return _describe_entry(control, store, handle, entry)

    def table_find(self, table: str, match: list[str], priority: int) -> RuntimeEntry:
        control, store = self._find_table(table)
        key = _parse_key(store, match, priority)
        handle = control.handles.find_handle(table, key)
        if handle is None:
            text = f"table {table} has no entry {_format_key(match, priority, store)}"
            raise RuntimeRefusal(TABLE, "BAD_MATCH_KEY", text)
        return self.table_entry(table, handle)

    def table_size(self, table: str) -> int:
        control, store = self._find_table(table)
        return control.pipeline.tables.count(store.name)

    def table_default(self, table: str) -> TableAction | None:
        _, store = self._find_table(table)
        action = store.default[DEFAULT_KEY].action
        return None if action is None else describe_action(store, action)

    def table_set_default(self, table: str, doing: TableAction | None) -> None:
        control, store = self._find_table(table)
        if store.profile is not None:
            self._set_indirect_default(store, store.profile, doing)
            return
        entry = p4r.TableEntry(table_id=store.table.id, is_default_action=True)
        if doing is not None:
            fill_action(control, store, doing, entry)
        try:
            update(control, MODIFY, p4r.Entity(table_entry=entry))
        except Refusal as refusal:
            code = "DEFAULT_ACTION_IS_CONST" if store.table.is_default_const else "ERROR"
            raise RuntimeRefusal(TABLE, code, str(refusal)) from None

    def table_set_timeout(self, table: str, handle: int, timeout: int) -> None:
        control, store = self._find_table(table)
        if not store.table.has_idle_timeout:
            raise RuntimeRefusal(TABLE, "AGEING_DISABLED", f"table {table} has no idle timeouts")
        key = self.key_of(control, table, handle)
        entry = _make_entry_message(store, key)
        store.fill_extras(
            store.extras.get(key, NO_EXTRAS)._replace(idle_timeout_ns=timeout * _NS_PER_MS), entry
        )
        self._write(control, MODIFY, entry)

    # -- used by other calls

    def key_of(self, control: ControlledPipeline[PL], table: str, handle: int) -> Key:
        key = control.handles.find_key(table, handle)
        if key is None:
            code = "EXPIRED_HANDLE" if control.handles.is_expired(table, handle) else "INVALID_HANDLE"
            raise RuntimeRefusal(TABLE, code, f"table {table} has no entry with handle {handle}")
        return key

    def _find_table(self, name: str) -> tuple[ControlledPipeline[PL], TableStore]:
        control = self.control()
        store = control.stores.find_by_name(name)
        if store is None:
            raise RuntimeRefusal(TABLE, "INVALID_TABLE_NAME", f"the program has no table {name}")
        return control, store

    def _write(self, control: ControlledPipeline[PL], update_type: int, entry: p4r.TableEntry) -> None:
        try:
            update(control, update_type, p4r.Entity(table_entry=entry))
        except Refusal as refusal:
            refuse(TABLE, refusal, TABLE_CODES)

    def _set_indirect_default(
        self, store: TableStore, profile: ProfileStore, doing: TableAction | None
    ) -> None:
        """Set the default of a table with an action profile, which is constant in P4Runtime."""
        control = self.require_unpinned(f"the default of table {store.name}")
        action: EntryAction | None = None
        if doing is not None:
            action = find_use(profile, doing)
        batch, old_action = control.batch(), store.default[DEFAULT_KEY].action
        for used_action, change in ((action, 1), (old_action, -1)):
            if isinstance(used_action, UseMember):
                profile.change_uses(profile.member_uses, used_action.member, change, batch)
            elif isinstance(used_action, UseGroup):
                profile.change_uses(profile.group_uses, used_action.group, change, batch)
        batch.put(store.default, DEFAULT_KEY, DefaultEntry(action))
        batch.add(lambda pipeline: pipeline.tables.set_default(store.name, action))
        batch.apply()


def _parse_key(store: TableStore, match: list[str], priority: int) -> Key:
    matches = parse_matches(store.name, store.table.key.fields, match)
    if not store.has_priority:
        return Key(matches)
    if not 0 <= priority < TOP_PRIORITY:
        text = (
            f"priority of table {store.name}: expected 0 to {TOP_PRIORITY - 1}, where 0 wins, got {priority}"
        )
        raise RuntimeRefusal(TABLE, "BAD_MATCH_KEY", text)
    return Key(matches, TOP_PRIORITY - priority)


def _format_key(match: list[str], priority: int, store: TableStore) -> str:
    return " ".join(match) + (f" of priority {priority}" if store.has_priority else "")


def _make_entry_message(store: TableStore, key: Key) -> p4r.TableEntry:
    entry = p4r.TableEntry()
    store.fill_key(key, entry)
    return entry


def _describe_entry(
    control: ControlledPipeline[PL], store: TableStore, handle: int, entry: StoredEntry
) -> RuntimeEntry:
    key = Key(entry.key, entry.priority)
    idle_times = None
    if store.table.has_idle_timeout:
        extras = store.extras.get(key, NO_EXTRAS)
        idle_us = idle_time(extras, entry, control.now())
        idle_times = IdleTimes(timeout=extras.idle_timeout_ns // _NS_PER_MS, idle=idle_us // _US_PER_MS)
    return RuntimeEntry(
        handle=handle,
        match=[
            format_match(field.kind, match)
            for field, match in zip(store.table.key.fields, entry.key, strict=True)
        ],
        priority=TOP_PRIORITY - entry.priority if store.has_priority else -1,
        doing=describe_action(store, entry.action),
        life=idle_times,
    )
