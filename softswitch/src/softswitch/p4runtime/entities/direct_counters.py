"""Direct counters: writes and reads of `DirectCounterEntry` (P4Runtime 1.4 §9.3.1)."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4runtime.batch import Batch, Step
from softswitch.p4runtime.entities.counters import counter_value
from softswitch.p4runtime.entities.direct import check_write, read_direct
from softswitch.p4runtime.entities.entry_reads import SelectedEntry
from softswitch.p4runtime.entities.store import Key, Stores, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import ControlPlane, CounterValue


def set_counter(store: TableStore, key: Key, value: CounterValue) -> Step:
    entry_key = store.entry_key(key)
    return lambda pipeline: pipeline.set_entry_counter(entry_key, value)


def has_counter(store: TableStore) -> bool:
    return store.table.has_counter


class DirectCounterEntries:
    def __init__(self, stores: Stores, pipeline: ControlPlane) -> None:
        self._stores = stores
        self._pipeline = pipeline

    def write(self, kind: int, message: p4r.DirectCounterEntry, batch: Batch) -> None:
        store, key = check_write(self._stores, kind, message.table_entry, batch, "counter", has_counter)
        step = set_counter(store, key, counter_value(message.data))
        if message.HasField("data"):
            batch.add(step)

    def read(self, wanted: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        found = read_direct(self._stores, self._pipeline, wanted.table_entry, "counter", has_counter)
        return (_entity(one) for one in found)


def _entity(found: SelectedEntry) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.direct_counter_entry
    found.store.describe(found.key, message.table_entry)
    message.data.packet_count, message.data.byte_count = found.entry.counter
    return entity
