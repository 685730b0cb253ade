"""RECONCILE_AND_COMMIT: copy the state of one pipeline to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from grpc import StatusCode

from softswitch.p4runtime.batch import INSERT, MODIFY
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import ControlPlane

BATCH_SIZE = 1000  # updates in one write
PL = TypeVar("PL", bound=ControlPlane)

# In this order, entities are written before those that refer to them.
ENTITIES = [
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(meter_entry=p4r.MeterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            multicast_group_entry=p4r.MulticastGroupEntry()
        )
    ),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            clone_session_entry=p4r.CloneSessionEntry()
        )
    ),
    p4r.Entity(digest_entry=p4r.DigestEntry()),
]
_MODIFY_ONLY = {"counter_entry", "meter_entry", "register_entry", "value_set_entry"}


class TableDefaults(Protocol):
    def has_initial_default(self, table_id: int) -> bool: ...


class State(Protocol):  # a `ControlledPipeline`, or a client of another switch (`explain.state`)
    @property
    def tables(self) -> TableDefaults: ...

    def read(self, request: p4r.ReadRequest) -> tuple[Iterator[p4r.ReadResponse], list[Refusal | None]]:
        """Return the entities that a batch of queries selects, and a result for each query."""


def carry_over(old_state: State, new_control: ControlledPipeline[PL]) -> list[Refusal]:
    updates = _make_updates(old_state)
    refusals: list[Refusal] = []
    while batch := list(islice(updates, BATCH_SIZE)):
        for update, refusal in zip(batch, _write(new_control, batch), strict=True):
            if refusal is not None and refusal.code is StatusCode.ALREADY_EXISTS:
                update.type = MODIFY  # the new pipeline had it from the start
                (refusal,) = _write(new_control, [update])
            # Cells with initial values need no place in the new pipeline.
            if refusal is not None and not _is_initial(update.entity):
                refusals.append(refusal)
    return refusals


def _is_initial(entity: p4r.Entity) -> bool:
    match entity.WhichOneof("entity"):
        case "counter_entry":
            return entity.counter_entry.data == p4r.CounterData()
        case "meter_entry":
            return not entity.meter_entry.HasField("config")
        case "register_entry":
            data = entity.register_entry.data
            return not (any(data.bitstring) or any(data.enum_value) or data.bool)
        case "value_set_entry":
            return not entity.value_set_entry.members
    return False


def _write(new_control: ControlledPipeline[PL], updates: Sequence[p4r.Update]) -> list[Refusal | None]:
    return new_control.write(p4r.WriteRequest(updates=updates))


def _make_updates(old_state: State) -> Iterator[p4r.Update]:
    responses, _ = old_state.read(p4r.ReadRequest(entities=ENTITIES))
    for response in responses:
        for entity in response.entities:
            kind = entity.WhichOneof("entity")
            if kind == "table_entry":
                yield from _make_entry_updates(old_state, entity)
            else:
                yield p4r.Update(type=MODIFY if kind in _MODIFY_ONLY else INSERT, entity=entity)


def _make_entry_updates(old_state: State, entity: p4r.Entity) -> Iterator[p4r.Update]:
    """Yield the update of a table entry, unless it is the program's own default or constant entry."""
    entry = entity.table_entry
    if entry.is_default_action:
        if not old_state.tables.has_initial_default(entry.table_id):
            yield p4r.Update(type=MODIFY, entity=entity)
    elif not entry.is_const:
        yield p4r.Update(type=INSERT, entity=entity)
    elif entry.HasField("counter_data") or entry.HasField("meter_config"):
        entry.ClearField("action")
        entry.is_const = False
        yield p4r.Update(type=MODIFY, entity=entity)
