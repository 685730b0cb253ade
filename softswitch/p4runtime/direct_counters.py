"""Direct counters: writes and reads of `DirectCounterEntry` (P4Runtime 1.4 §9.3.1)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from softswitch.p4runtime.batch import MODIFY, Action, Batch
from softswitch.p4runtime.status import invalid
from softswitch.p4runtime.store import Key, Stores, TableStore
from softswitch.pipeline import CounterValue, Pipeline


def counter_of(pipeline: Pipeline, store: TableStore, key: Key) -> CounterValue:
    """The direct counter of an entry that is there."""
    return pipeline.entry_counter(store.table.name, key.matches, key.priority)


def set_counter(store: TableStore, key: Key, data: p4r.CounterData) -> Action:
    """What sets the direct counter of an entry to `data`."""
    table, value = store.table, counter_value(data)
    if not table.has_counter:
        raise invalid(f"table {table.name} has no direct counter")
    return lambda pipeline: pipeline.set_entry_counter(table.name, key.matches, value, key.priority)


def counter_value(data: p4r.CounterData) -> CounterValue:
    """A counter's value from a message."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"counter value {data.packet_count} packets, {data.byte_count} bytes is negative")
    return CounterValue(data.packet_count, data.byte_count)


class DirectCounters:
    """The direct counters of all tables that have one."""

    def __init__(self, stores: Stores, pipeline: Pipeline) -> None:
        self._stores = stores
        self._pipeline = pipeline

    def write(self, kind: int, message: p4r.DirectCounterEntry, batch: Batch) -> None:
        """Check one update, which can only be a MODIFY, and add it to the batch."""
        store = self._stores[message.table_entry.table_id]
        if kind != MODIFY:
            raise invalid(f"table {store.table.name}: a direct counter can only be modified")
        key = store.key(message.table_entry)
        if key not in store.entries:
            raise store.missing(key)
        step = set_counter(store, key, message.data)
        if message.HasField("data"):
            batch.steps.append(step)

    def read(self, wanted: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """The counters of one entry, of a table's entries, or of all tables' entries, as they are now."""
        found: list[tuple[TableStore, Key, CounterValue]] = []
        for store in self._stores.selected(wanted.table_entry):
            if store.table.has_counter:
                found += [
                    (store, key, counter_of(self._pipeline, store, key))
                    for key in _keys(store, wanted.table_entry)
                ]
            elif wanted.table_entry.table_id:
                raise invalid(f"table {store.table.name} has no direct counter")
        return (self._entity(*item) for item in found)

    def _entity(self, store: TableStore, key: Key, value: CounterValue) -> p4r.Entity:
        entity = p4r.Entity()
        message = entity.direct_counter_entry
        self._stores.describe(store, key, message.table_entry)
        message.data.packet_count, message.data.byte_count = value
        return entity


def _keys(store: TableStore, wanted: p4r.TableEntry) -> list[Key]:
    keys = [key for key, _ in store.selected(wanted)]
    if wanted.match and not keys:
        raise store.missing(Key(store.table.key.decode(wanted.match), wanted.priority))
    return keys
