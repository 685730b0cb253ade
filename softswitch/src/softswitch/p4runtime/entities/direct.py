"""Base of direct counters and direct meters, which belong to existing entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain

from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.entities.entry_reads import SelectedEntry, select_entries
from softswitch.p4runtime.entities.store import Key, Stores, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.pipeline import ControlPlane


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
