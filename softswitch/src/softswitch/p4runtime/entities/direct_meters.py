"""Direct meters: writes and reads of `DirectMeterEntry` (P4Runtime 1.4 §9.4.1)."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4runtime.batch import Batch, Step
from softswitch.p4runtime.entities.direct import DirectEntries
from softswitch.p4runtime.entities.entry_reads import SelectedEntry
from softswitch.p4runtime.entities.meter_configs import decode_config, encode_config, refuse_color_counters
from softswitch.p4runtime.entities.store import NO_EXTRAS, Key, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import MeterConfig


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
        return map(_make_entity, self._select(query.table_entry))


def _make_entity(selected: SelectedEntry) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.direct_meter_entry
    selected.store.fill_key(selected.key, message.table_entry)
    if selected.extras.meter is not None:
        encode_config(selected.extras.meter, message.config)
    return entity
