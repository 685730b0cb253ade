"""Writes of `TableEntry` (P4Runtime 1.4 §9.1). Reads are in `entry_reads`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from softswitch.errors import EntryExists, EntryMissing
from softswitch.p4runtime.batch import DELETE, INSERT, MODIFY, Batch
from softswitch.p4runtime.entities.cells import counter_value
from softswitch.p4runtime.entities.direct import decode_meter_config, make_counter_step, make_meter_step
from softswitch.p4runtime.entities.entry_actions import decode_direct_action, prepare_action, release_action
from softswitch.p4runtime.entities.entry_reads import read_entries
from softswitch.p4runtime.entities.idle_timeouts import IdleTimers
from softswitch.p4runtime.entities.store import (
    DEFAULT_KEY,
    NO_EXTRAS,
    DefaultEntry,
    Extras,
    Key,
    Stores,
    TableStore,
)
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo
from softswitch.p4runtime.status import Refusal, denied, invalid, unimplemented
from softswitch.pipeline import (
    Change,
    ControlPlane,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    StoredEntry,
)

Clock = Callable[[], int]  # returns µs since start
CHANGES = {INSERT: Change.INSERT, MODIFY: Change.MODIFY, DELETE: Change.DELETE}
MATCH_FIELD, ACTION_FIELD = (p4r.TableEntry.DESCRIPTOR.fields_by_name[name] for name in ("match", "action"))


class _EntryData(NamedTuple):
    extras: Extras
    counter: CounterValue | None


class TableEntries:
    def __init__(
        self,
        stores: Stores,
        actions: Mapping[str, ActionInfo],
        pipeline: ControlPlane,
        timers: IdleTimers,
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._actions = actions
        self._pipeline = pipeline
        self._timers = timers
        self._clock = clock

    def write(self, update_type: int, entry: p4r.TableEntry, batch: Batch) -> None:
        store = self._stores[entry.table_id]
        if entry.is_const:
            raise invalid(f"table {store.name}: is_const must not be set in a write")
        if update_type != DELETE:
            _check_fields(store, entry)
        if entry.is_default_action:
            write_default(store, update_type, entry, batch)
        elif store.table.is_const:
            _write_const(store, update_type, entry, batch)
        elif update_type == INSERT:
            self._insert(store, entry, batch)
        elif update_type == MODIFY:
            self._modify(store, entry, batch)
        else:
            self._delete(store, entry, batch)

    def read(self, query: p4r.TableEntry) -> Iterator[p4r.Entity]:
        return read_entries(self._stores, self._actions, self._pipeline, query, self._clock())

    def idle_entry(self, entry_key: EntryKey) -> p4r.TableEntry:
        """Return an entry as it is reported after its idle timeout (P4Runtime 1.4 §16.4)."""
        store = self._stores.get_by_name(entry_key.table)
        key = Key(entry_key.key, entry_key.priority)
        message = p4r.TableEntry()
        store.fill_key(key, message)
        store.fill_extras(store.extras.get(key, NO_EXTRAS), message)
        return message

    def has_initial_default(self, table_id: int) -> bool:
        store = self._stores[table_id]
        return store.default[DEFAULT_KEY] is store.initial_default

    # -- plain updates: match and action only, which the pipeline can check

    def decode_plain_write(self, update: p4r.Update) -> EntryWrite | None:
        """Return the write of a plain update, None for any other update; raises Refusal if malformed."""
        entry = update.entity.table_entry
        store = self._stores.find(entry.table_id)
        update_type = update.type
        if store is None or not store.is_plain or update_type not in CHANGES:
            return None
        fields = entry.ListFields()  # (descriptor, value) of the set fields: table_id, match, action
        has_action = len(fields) == 3 and fields[2][0] is ACTION_FIELD
        if (
            not (has_action or (update_type == DELETE and len(fields) == 2))
            or fields[1][0] is not MATCH_FIELD
        ):
            return None
        matches = store.table.key.decode(entry.match)
        action = None if update_type == DELETE else decode_direct_action(store.table, entry.action)
        return EntryWrite(CHANGES[update_type], store.name, matches, action)

    def record_plain_result(self, write: EntryWrite, failure: Exception | None) -> Refusal | None:
        store = self._stores.get_by_name(write.table)
        if failure is None and not store.extras:
            return None
        key = Key(write.key)
        if failure is None:
            store.extras.pop(key, None)
            return None
        if isinstance(failure, EntryExists):
            return store.exists_error(key)
        return store.missing_error(key) if isinstance(failure, EntryMissing) else store.full_error()

    # -- all updates

    def _insert(self, store: TableStore, entry: p4r.TableEntry, batch: Batch) -> None:
        key = store.decode_key(entry)
        if not key.matches:
            raise invalid(f"table {store.name} has no key: only its default entry can be written")
        if batch.find(store.entry_key(key)) is not None:
            raise store.exists_error(key)
        use_action = prepare_action(store, entry.action)
        data = _decode_data(store, entry, self._clock())
        if batch.entry_count(store.name) >= store.size:
            raise store.full_error()
        batch.hold_strings(store.entry_key(key))
        self._put_entry(store, Change.INSERT, key, use_action(batch), data, batch)

    def _modify(self, store: TableStore, entry: p4r.TableEntry, batch: Batch) -> None:
        key = store.decode_key(entry)
        old = _existing_entry(store, key, batch)
        use_action = prepare_action(store, entry.action) if entry.HasField("action") else None
        data = _decode_data(store, entry, store.extras.get(key, NO_EXTRAS).written_us)
        if use_action is not None:  # otherwise it keeps the old action, which may have other strings
            batch.hold_strings(store.entry_key(key))
        new_action = old.action if use_action is None else use_action(batch)
        self._put_entry(store, Change.MODIFY, key, new_action, data, batch)
        if use_action is not None:
            release_action(store, old.action, batch)

    def _delete(self, store: TableStore, entry: p4r.TableEntry, batch: Batch) -> None:
        key = store.decode_key(entry)
        old = _existing_entry(store, key, batch)
        batch.put(store.extras, key, None)
        batch.release_strings(store.entry_key(key))
        batch.write_entry(EntryWrite(Change.DELETE, store.name, key.matches, None, key.priority))
        batch.call_after_apply(lambda: self._timers.stop(store.entry_key(key)))
        release_action(store, old.action, batch)

    def _put_entry(
        self,
        store: TableStore,
        change: Change,
        key: Key,
        action: EntryAction,
        data: _EntryData,
        batch: Batch,
    ) -> None:
        extras, counter = data
        had_meter = store.extras.get(key, NO_EXTRAS).meter is not None
        batch.put(store.extras, key, None if extras == NO_EXTRAS else extras)
        batch.write_entry(EntryWrite(change, store.name, key.matches, action, key.priority))
        if counter is not None:
            batch.add(make_counter_step(store, key, counter))
        if had_meter or extras.meter is not None:
            batch.add(make_meter_step(store, key, extras.meter))
        if store.table.has_idle_timeout:
            batch.call_after_apply(lambda: self._set_timer(store, key, extras))

    def _set_timer(self, store: TableStore, key: Key, extras: Extras) -> None:
        if extras.idle_timeout_ns:
            self._timers.start(store.entry_key(key), extras.idle_timeout_ns, self._clock())
        else:
            self._timers.stop(store.entry_key(key))


def _existing_entry(store: TableStore, key: Key, batch: Batch) -> StoredEntry:
    entry = batch.find(store.entry_key(key))
    if entry is None:
        raise store.missing_error(key)
    return entry


def _decode_data(store: TableStore, entry: p4r.TableEntry, written_us: int) -> _EntryData:
    extras = Extras(
        entry.metadata,
        entry.controller_metadata,
        entry.idle_timeout_ns,
        decode_meter_config(store, entry.meter_config) if entry.HasField("meter_config") else None,
        written_us if store.table.has_idle_timeout else 0,
    )
    return _EntryData(extras, counter_value(entry.counter_data) if entry.HasField("counter_data") else None)


def _write_const(store: TableStore, update_type: int, entry: p4r.TableEntry, batch: Batch) -> None:
    if update_type != MODIFY or entry.HasField("action"):
        raise denied(f"table {store.name} has constant entries")
    key = store.decode_key(entry)
    _existing_entry(store, key, batch)
    extras, counter = _decode_data(store, entry, written_us=0)
    if counter is not None:
        batch.add(make_counter_step(store, key, counter))
    if extras.meter is not None or key in store.extras:
        batch.put(store.extras, key, None if extras.meter is None else Extras(meter=extras.meter))
        batch.add(make_meter_step(store, key, extras.meter))


def _check_fields(store: TableStore, entry: p4r.TableEntry) -> None:
    table, name = store.table, store.name
    if entry.HasField("time_since_last_hit"):
        raise invalid(f"table {name}: time_since_last_hit must not be set in a write")
    if entry.idle_timeout_ns and (not table.has_idle_timeout or entry.is_default_action or table.is_const):
        raise invalid(f"table {name}: idle_timeout_ns is set, but the entry cannot have an idle timeout")
    if entry.idle_timeout_ns < 0:
        raise invalid(f"table {name}: idle_timeout_ns {entry.idle_timeout_ns} is negative")
    if entry.HasField("counter_data") and not table.has_counter:
        raise invalid(f"table {name} has no direct counter")
    if table.meter is None and (entry.HasField("meter_config") or entry.HasField("meter_counter_data")):
        raise invalid(f"table {name} has no direct meter")
    if entry.HasField("meter_counter_data"):
        raise unimplemented(f"table {name}: counters of meter colors are not supported")


def write_default(store: TableStore, update_type: int, entry: p4r.TableEntry, batch: Batch) -> None:
    """Check a MODIFY and add it to the batch; without an action it restores the program's default entry."""
    table = store.table
    if update_type != MODIFY:
        raise invalid(f"table {store.name}: the default entry can only be modified")
    if entry.match or entry.priority:
        raise invalid(f"table {store.name}: the default entry has neither match fields nor priority")
    if entry.HasField("counter_data") or entry.HasField("meter_config"):
        text = "the default entry's direct counter and meter are not supported"
        raise unimplemented(f"table {store.name}: {text}")
    # In P4Runtime, a table with an action profile has a constant default action.
    if table.is_default_const or table.profile is not None:
        raise denied(f"table {store.name} has a constant default action")
    if entry.HasField("action"):
        action = decode_direct_action(table, entry.action, is_default=True)
        new_entry = DefaultEntry(action, Extras(entry.metadata, entry.controller_metadata))
        batch.add(lambda pipeline: pipeline.tables.set_default(store.name, action))
    else:
        new_entry = store.initial_default
        batch.add(lambda pipeline: pipeline.tables.set_default(store.name, None))
    batch.put(store.default, DEFAULT_KEY, new_entry)
    batch.hold_strings(("default", store.name))
