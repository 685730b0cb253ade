"""Base of direct counters and direct meters, which belong to existing entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.entities.entry_reads import SelectedEntry, select
from softswitch.p4runtime.entities.store import Key, Stores, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid, unimplemented
from softswitch.pipeline import ControlPlane

HasResource = Callable[[TableStore], bool]


def check_write(
    stores: Stores, kind: int, entry: p4r.TableEntry, batch: Batch, what: str, has: HasResource
) -> tuple[TableStore, Key]:
    store = stores[entry.table_id]
    if kind != MODIFY:
        raise invalid(f"table {store.name}: a direct {what} can only be modified")
    if not has(store):
        raise _no_resource(store, what)
    _refuse_default(entry, what)
    key = store.key(entry)
    if batch.find(store.entry_key(key)) is None:
        raise store.missing(key)
    return store, key


def read_direct(
    stores: Stores, pipeline: ControlPlane, wanted: p4r.TableEntry, what: str, has: HasResource
) -> Iterator[SelectedEntry]:
    _refuse_default(wanted, what)
    if not wanted.table_id:
        found = [
            select(stores, pipeline, p4r.TableEntry(table_id=store.table.id))
            for store in stores.selected(wanted)
            if has(store)
        ]
        return chain.from_iterable(found)
    store = stores[wanted.table_id]
    if not has(store):
        raise _no_resource(store, what)
    if not wanted.match:
        return select(stores, pipeline, wanted)
    named = list(select(stores, pipeline, wanted))
    if not named:
        raise store.missing(Key(store.table.key.decode(wanted.match), wanted.priority))
    return iter(named)


def _no_resource(store: TableStore, what: str) -> Refusal:
    return invalid(f"table {store.name} has no direct {what}")


def _refuse_default(entry: p4r.TableEntry, what: str) -> None:
    if entry.is_default_action:
        raise unimplemented(f"direct {what}s of default entries are not supported")
