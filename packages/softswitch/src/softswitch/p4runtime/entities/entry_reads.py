"""Queries of table entries, also for direct counters and meters (P4Runtime 1.4 §9.1.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from softswitch.p4runtime.entities.cells import encode_config
from softswitch.p4runtime.entities.entry_actions import encode_action
from softswitch.p4runtime.entities.profiles import OneShots
from softswitch.p4runtime.entities.store import DEFAULT_KEY, NO_EXTRAS, Extras, Key, Stores, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.pipeline import ActionCall, ControlPlane, EntryAction, StoredEntry

_NS_PER_US = 1000


class SelectedEntry(NamedTuple):
    store: TableStore
    key: Key
    entry: StoredEntry
    extras: Extras
    one_shots: OneShots


def select_entries(stores: Stores, pipeline: ControlPlane, query: p4r.TableEntry) -> Iterator[SelectedEntry]:
    return chain.from_iterable([_select_from_table(store, pipeline, query) for store in stores.select(query)])


def read_entries(
    stores: Stores,
    actions: Mapping[str, ActionInfo],
    pipeline: ControlPlane,
    query: p4r.TableEntry,
    now: int,
) -> Iterator[p4r.Entity]:
    selected_stores = stores.select(query)
    for store in selected_stores:
        _check_query(store, query)
    if query.is_default_action:
        defaults = [(store, store.default[DEFAULT_KEY]) for store in selected_stores]
        return iter(
            [
                _make_default_entity(store, action, extras, actions)
                for store, (action, extras) in defaults
                if _is_selected(action, extras, actions, query)
            ]
        )
    return (
        _make_entity(entry, actions, query, now)
        for entry in select_entries(stores, pipeline, query)
        if _is_selected(entry.entry.action, entry.extras, actions, query)
    )


def idle_time(extras: Extras, entry: StoredEntry, now: int) -> int:
    """Return the µs since the last hit of an entry with an idle timeout; `now` is in µs since start."""
    return max(0, now - max(extras.written_us, entry.last_hit))


def _select_from_table(
    store: TableStore, pipeline: ControlPlane, query: p4r.TableEntry
) -> Iterator[SelectedEntry]:
    wanted_key = None  # all keys
    entries: Iterable[StoredEntry | None]
    if query.match and (query.priority or not store.has_priority):
        entries = pipeline.tables.find([store.entry_key(store.decode_key(query))])
    else:
        wanted_key = store.table.key.decode(query.match) if query.match else None
        entries = pipeline.tables.read(store.name)
    # Copies, since entries may be written while the caller consumes the iterator.
    extras = dict(store.extras)
    one_shots = dict(store.profile.one_shots) if store.profile is not None else {}
    return (
        SelectedEntry(store, key, entry, extras.get(key, NO_EXTRAS), one_shots)
        for entry in entries
        if entry is not None and query.priority in (0, entry.priority) and wanted_key in (None, entry.key)
        for key in [Key(entry.key, entry.priority)]
    )


def _check_query(store: TableStore, query: p4r.TableEntry) -> None:
    """Raise Refusal for fields that the table cannot have; a query of all tables ignores such fields."""
    table, name = store.table, store.name
    if query.is_default_action and query.HasField("time_since_last_hit"):
        raise invalid("default entries have no idle timeout")
    if query.is_default_action and (query.HasField("counter_data") or query.HasField("meter_config")):
        raise unimplemented("direct counters and meters of default entries are not supported")
    if query.HasField("meter_counter_data"):
        raise unimplemented("counters of meter colors are not supported")
    if not query.table_id:
        return
    if query.HasField("counter_data") and not table.has_counter:
        raise invalid(f"table {name} has no direct counter")
    if query.HasField("meter_config") and table.meter is None:
        raise invalid(f"table {name} has no direct meter")
    if query.HasField("time_since_last_hit") and not table.has_idle_timeout:
        raise invalid(f"table {name} has no idle timeouts")


def _is_selected(
    action: EntryAction | None, extras: Extras, actions: Mapping[str, ActionInfo], query: p4r.TableEntry
) -> bool:
    # Fields that are not set in the query select all entries.
    action_id = actions[action.name].id if isinstance(action, ActionCall) else 0
    return (
        (not query.HasField("action") or query.action.action.action_id == action_id)
        and query.metadata in (b"", extras.metadata)
        and query.controller_metadata in (0, extras.controller_metadata)
    )


def _make_entity(
    selected: SelectedEntry, actions: Mapping[str, ActionInfo], query: p4r.TableEntry, now: int
) -> p4r.Entity:
    store, key, entry, extras, one_shots = selected
    entity = p4r.Entity()
    message = entity.table_entry
    store.fill_key(key, message)
    encode_action(entry.action, actions, one_shots, message.action)
    store.fill_extras(extras, message)
    message.is_const = store.table.is_const
    if store.table.has_counter and query.HasField("counter_data"):
        message.counter_data.packet_count, message.counter_data.byte_count = entry.counter
    if extras.meter is not None and query.HasField("meter_config"):
        encode_config(extras.meter, message.meter_config)
    if store.table.has_idle_timeout and query.HasField("time_since_last_hit"):
        message.time_since_last_hit.elapsed_ns = _NS_PER_US * idle_time(extras, entry, now)
    return entity


def _make_default_entity(
    store: TableStore, action: EntryAction | None, extras: Extras, actions: Mapping[str, ActionInfo]
) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.table_entry
    message.table_id, message.is_default_action = store.table.id, True
    message.is_const = store.table.is_default_const
    if action is not None:
        encode_action(action, actions, {}, message.action)
    store.fill_extras(extras, message)
    return entity
