"""Writes and reads of `TableEntry` (P4Runtime 1.4 §9.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from finsy.proto import p4r

from softswitch.p4runtime.batch import DELETE, INSERT, MODIFY, Batch
from softswitch.p4runtime.direct_counters import counter_of, set_counter
from softswitch.p4runtime.status import denied, invalid, unimplemented
from softswitch.p4runtime.store import DEFAULT, Entry, Key, Stores, TableStore
from softswitch.pipeline import ActionCall, Change, CounterValue, EntryWrite, Pipeline


class TableEntries:
    """The entries and default entries of all tables."""

    def __init__(self, stores: Stores, pipeline: Pipeline) -> None:
        self._stores = stores
        self._pipeline = pipeline

    def write(self, kind: int, entry: p4r.TableEntry, batch: Batch) -> None:
        """Check one update and add it to the batch."""
        store = self._stores[entry.table_id]
        if entry.is_const:
            raise invalid(f"table {store.table.name}: is_const must not be set in a write")
        if kind != DELETE:
            _refuse_unused(store, entry)
        if entry.is_default_action:
            _write_default(store, kind, entry, batch)
        elif store.table.is_const:
            _write_const(store, kind, entry, batch)
        elif kind == INSERT:
            _insert(store, entry, batch)
        elif kind == MODIFY:
            _modify(store, entry, batch)
        else:
            _delete(store, entry, batch)

    def read(self, wanted: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """The entries that a query selects, as they are now (P4Runtime 1.4 §9.1.6)."""
        found: list[tuple[TableStore, Key, Entry, CounterValue | None]] = []
        for store in self._stores.selected(wanted):
            counted = wanted.HasField("counter_data") and _counted(store, wanted)
            for key, entry in _candidates(store, wanted):
                if self._matches(entry, wanted):
                    counter = counter_of(self._pipeline, store, key) if counted else None
                    found.append((store, key, entry, counter))
        return (self._entity(wanted.is_default_action, *item) for item in found)

    def _matches(self, entry: Entry, wanted: p4r.TableEntry) -> bool:
        return (
            (not wanted.HasField("action") or wanted.action.action.action_id == self._stores.action_id(entry))
            and wanted.metadata in (b"", entry.metadata)
            and wanted.controller_metadata in (0, entry.controller_metadata)
        )

    def _entity(
        self, is_default: bool, store: TableStore, key: Key, entry: Entry, counter: CounterValue | None
    ) -> p4r.Entity:
        entity = p4r.Entity()
        message = entity.table_entry
        if is_default:
            message.table_id, message.is_default_action = store.table.id, True
        else:
            self._stores.describe(store, key, message)
            message.is_const = store.table.is_const
        self._stores.fill(entry, message)
        if counter is not None:
            message.counter_data.packet_count, message.counter_data.byte_count = counter
        return entity


def _candidates(store: TableStore, wanted: p4r.TableEntry) -> Iterable[tuple[Key, Entry]]:
    if wanted.is_default_action:
        return store.default.items()
    return store.selected(wanted)


def _counted(store: TableStore, wanted: p4r.TableEntry) -> bool:
    if wanted.is_default_action:
        raise unimplemented("direct counters of default entries are not supported")
    if wanted.table_id and not store.table.has_counter:
        raise invalid(f"table {store.table.name} has no direct counter")
    return store.table.has_counter


def _refuse_unused(store: TableStore, entry: p4r.TableEntry) -> None:
    name = store.table.name
    if entry.idle_timeout_ns or entry.HasField("time_since_last_hit"):
        raise unimplemented(f"table {name}: idle timeouts are not supported")
    if entry.HasField("meter_config") or entry.HasField("meter_counter_data"):
        raise invalid(f"table {name} has no direct meter")


def _insert(store: TableStore, entry: p4r.TableEntry, batch: Batch) -> None:
    table, key = store.table, store.key(entry)
    if not key.matches:
        raise invalid(f"table {table.name} has no key: only its default entry can be written")
    if key in store.entries:
        raise store.exists(key)
    action = store.action(entry.action)
    if len(store.entries) >= store.size:
        raise store.full()
    _put(store, Change.INSERT, key, action, entry, batch)


def _modify(store: TableStore, entry: p4r.TableEntry, batch: Batch) -> None:
    key = store.key(entry)
    old = store.entries.get(key)
    if old is None:
        raise store.missing(key)
    action = store.action(entry.action) if entry.HasField("action") else old.action
    _put(store, Change.MODIFY, key, action, entry, batch)


def _put(
    store: TableStore, change: Change, key: Key, action: ActionCall, entry: p4r.TableEntry, batch: Batch
) -> None:
    counter = set_counter(store, key, entry.counter_data) if entry.HasField("counter_data") else None
    batch.put(store.entries, key, Entry(action, entry.metadata, entry.controller_metadata))
    batch.steps.append(EntryWrite(change, store.table.name, key.matches, action, key.priority))
    if counter is not None:
        batch.steps.append(counter)


def _write_const(store: TableStore, kind: int, entry: p4r.TableEntry, batch: Batch) -> None:
    if kind != MODIFY or entry.HasField("action"):
        raise denied(f"table {store.table.name} has constant entries")
    key = store.key(entry)
    if key not in store.entries:
        raise store.missing(key)
    if entry.HasField("counter_data"):
        batch.steps.append(set_counter(store, key, entry.counter_data))


def _delete(store: TableStore, entry: p4r.TableEntry, batch: Batch) -> None:
    key = store.key(entry)
    if key not in store.entries:
        raise store.missing(key)
    batch.put(store.entries, key, None)
    batch.steps.append(EntryWrite(Change.DELETE, store.table.name, key.matches, None, key.priority))


def _write_default(store: TableStore, kind: int, entry: p4r.TableEntry, batch: Batch) -> None:
    table = store.table
    if kind != MODIFY:
        raise invalid(f"table {table.name}: the default entry can only be modified")
    if entry.match or entry.priority:
        raise invalid(f"table {table.name}: the default entry has neither match fields nor priority")
    if entry.HasField("counter_data"):
        raise unimplemented(f"table {table.name}: the default entry's direct counter is not supported")
    if table.is_default_const:
        raise denied(f"table {table.name} has a constant default action")
    if entry.HasField("action"):
        action = store.action(entry.action, default=True)
        new = Entry(action, entry.metadata, entry.controller_metadata)
        batch.steps.append(lambda pipeline: pipeline.set_default(table.name, action))
    else:
        new = store.initial_default
        batch.steps.append(lambda pipeline: pipeline.set_default(table.name, None))
    batch.put(store.default, DEFAULT, new)
