"""Direct counters: writes and reads of `DirectCounterEntry` (P4Runtime 1.4 §9.3.1)."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4runtime.batch import Batch, Step
from softswitch.p4runtime.entities.counters import counter_value
from softswitch.p4runtime.entities.direct import DirectEntries
from softswitch.p4runtime.entities.entry_reads import SelectedEntry
from softswitch.p4runtime.entities.store import Key, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import CounterValue


def make_counter_step(store: TableStore, key: Key, value: CounterValue) -> Step:
    entry_key = store.entry_key(key)
    return lambda pipeline: pipeline.tables.set_counter(entry_key, value)


class DirectCounterEntries(DirectEntries):
    resource = "counter"

    def _has_resource(self, store: TableStore) -> bool:
        return store.table.has_counter

    def write(self, update_type: int, message: p4r.DirectCounterEntry, batch: Batch) -> None:
        store, key = self._check_write(update_type, message.table_entry, batch)
        if message.HasField("data"):
            batch.add(make_counter_step(store, key, counter_value(message.data)))

    def read(self, query: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        return map(_make_entity, self._select(query.table_entry))


def _make_entity(selected: SelectedEntry) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.direct_counter_entry
    selected.store.fill_key(selected.key, message.table_entry)
    message.data.packet_count, message.data.byte_count = selected.entry.counter
    return entity
