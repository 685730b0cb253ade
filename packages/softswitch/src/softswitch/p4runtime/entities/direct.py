"""Direct counters and meters, which belong to existing entries (P4Runtime 1.4 §9.3.1, §9.4.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain

from softswitch.p4runtime.batch import MODIFY, Batch, Step
from softswitch.p4runtime.entities.cells import (
    counter_value,
    decode_config,
    encode_config,
    refuse_color_counters,
)
from softswitch.p4runtime.entities.entry_reads import SelectedEntry, select_entries
from softswitch.p4runtime.entities.store import NO_EXTRAS, Key, Stores, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.pipeline import ControlPlane, CounterValue, MeterConfig


class DirectEntries(ABC):
    resource: str  # "counter" or "meter", as in messages

    def __init__(self, stores: Stores, pipeline: ControlPlane) -> None:
        self._stores = stores
        self._pipeline = pipeline

    @abstractmethod
    def _has_resource(self, store: TableStore) -> bool: ...

    def _check_write(self, update_type: int, entry: p4r.TableEntry, batch: Batch) -> tuple[TableStore, Key]:
        store = self._stores[entry.table_id]
        if update_type != MODIFY:
            raise invalid(f"table {store.name}: a direct {self.resource} can only be modified")
        self._check_resource(store)
        self._refuse_default_entry(entry)
        key = store.decode_key(entry)
        if batch.find(store.entry_key(key)) is None:
            raise store.missing_error(key)
        return store, key

    def _select(self, query: p4r.TableEntry) -> Iterator[SelectedEntry]:
        self._refuse_default_entry(query)
        if not query.table_id:
            selections = [
                select_entries(self._stores, self._pipeline, p4r.TableEntry(table_id=store.table.id))
                for store in self._stores.select(query)
                if self._has_resource(store)
            ]
            return chain.from_iterable(selections)
        store = self._stores[query.table_id]
        self._check_resource(store)
        if not query.match:
            return select_entries(self._stores, self._pipeline, query)
        selected = list(select_entries(self._stores, self._pipeline, query))
        if not selected:
            raise store.missing_error(Key(store.table.key.decode(query.match), query.priority))
        return iter(selected)

    def _check_resource(self, store: TableStore) -> None:
        if not self._has_resource(store):
            raise invalid(f"table {store.name} has no direct {self.resource}")

    def _refuse_default_entry(self, entry: p4r.TableEntry) -> None:
        if entry.is_default_action:
            raise unimplemented(f"direct {self.resource}s of default entries are not supported")


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
        return map(_counter_entity, self._select(query.table_entry))


def _counter_entity(selected: SelectedEntry) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.direct_counter_entry
    selected.store.fill_key(selected.key, message.table_entry)
    message.data.packet_count, message.data.byte_count = selected.entry.counter
    return entity


def decode_meter_config(store: TableStore, message: p4r.MeterConfig) -> MeterConfig:
    assert store.table.meter is not None
    return decode_config(message, store.table.meter, f"direct meter of table {store.name}")


def make_meter_step(store: TableStore, key: Key, config: MeterConfig | None) -> Step:
    entry_key = store.entry_key(key)
    return lambda pipeline: pipeline.tables.set_meter(entry_key, config)


class DirectMeterEntries(DirectEntries):
    resource = "meter"

    def _has_resource(self, store: TableStore) -> bool:
        return store.table.meter is not None

    def write(self, update_type: int, message: p4r.DirectMeterEntry, batch: Batch) -> None:
        store, key = self._check_write(update_type, message.table_entry, batch)
        refuse_color_counters(message)
        config = decode_meter_config(store, message.config) if message.HasField("config") else None
        extras = store.extras.get(key, NO_EXTRAS)._replace(meter=config)
        batch.put(store.extras, key, None if extras == NO_EXTRAS else extras)
        batch.add(make_meter_step(store, key, config))

    def read(self, query: p4r.DirectMeterEntry) -> Iterator[p4r.Entity]:
        refuse_color_counters(query)
        return map(_meter_entity, self._select(query.table_entry))


def _meter_entity(selected: SelectedEntry) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.direct_meter_entry
    selected.store.fill_key(selected.key, message.table_entry)
    if selected.extras.meter is not None:
        encode_config(selected.extras.meter, message.config)
    return entity
