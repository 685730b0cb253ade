"""Writes of the default entries of tables (P4Runtime 1.4 §9.1.3)."""

from __future__ import annotations

from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.entities.entry_actions import decode_direct_action
from softswitch.p4runtime.entities.store import DEFAULT_KEY, DefaultEntry, Extras, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import denied, invalid, unimplemented


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
