"""Base of direct counters and direct meters, which belong to existing entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.entities.entry_reads import SelectedEntry, select_entries
from softswitch.p4runtime.entities.store import Key, Stores, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid, unimplemented
from softswitch.pipeline import ControlPlane

HasResource = Callable[[TableStore], bool]


def check_write(
    stores: Stores,
    update_type: int,
    entry: p4r.TableEntry,
    batch: Batch,
    resource: str,
    has_resource: HasResource,
) -> tuple[TableStore, Key]:
    store = stores[entry.table_id]
    if update_type != MODIFY:
        raise invalid(f"table {store.name}: a direct {resource} can only be modified")
    if not has_resource(store):
        raise _no_resource_error(store, resource)
    _refuse_default_entry(entry, resource)
    key = store.decode_key(entry)
    if batch.find(store.entry_key(key)) is None:
        raise store.missing_error(key)
    return store, key


def read_direct(
    stores: Stores, pipeline: ControlPlane, query: p4r.TableEntry, resource: str, has_resource: HasResource
) -> Iterator[SelectedEntry]:
    _refuse_default_entry(query, resource)
    if not query.table_id:
        selections = [
            select_entries(stores, pipeline, p4r.TableEntry(table_id=store.table.id))
            for store in stores.select(query)
            if has_resource(store)
        ]
        return chain.from_iterable(selections)
    store = stores[query.table_id]
    if not has_resource(store):
        raise _no_resource_error(store, resource)
    if not query.match:
        return select_entries(stores, pipeline, query)
    selected = list(select_entries(stores, pipeline, query))
    if not selected:
        raise store.missing_error(Key(store.table.key.decode(query.match), query.priority))
    return iter(selected)


def _no_resource_error(store: TableStore, resource: str) -> Refusal:
    return invalid(f"table {store.name} has no direct {resource}")


def _refuse_default_entry(entry: p4r.TableEntry, resource: str) -> None:
    if entry.is_default_action:
        raise unimplemented(f"direct {resource}s of default entries are not supported")
