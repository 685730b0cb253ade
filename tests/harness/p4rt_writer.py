"""A `Pipeline`'s writes as P4Runtime updates: what draws state for pipelines draws it for any target.

Meters get a rate that no clock can be seen in: bursts that never fill again, or always do (`timeless`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from finsy.proto import p4i, p4r

from softswitch.p4runtime.codecs import values
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Replica,
)
from targets.encoding import EntryEncoder

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
FAST = 100_000
"""Rates a second from which a meter is made one that always refills."""


class OneShot(NamedTuple):
    """What an entry does that brings its group with it: actions, each with a weight."""

    members: tuple[tuple[ActionCall, int], ...]


def timeless(config: MeterConfig) -> MeterConfig:
    """The same bursts at rates of nothing, or of so much that a bucket is full after a microsecond."""
    rates = (0 if rate < FAST else 1_000_000_000 for rate in (config.committed_rate, config.peak_rate))
    return MeterConfig(next(rates), config.committed_burst, next(rates), config.peak_burst)


class P4RuntimeWriter:
    """The writing half of a `Pipeline`. `send` takes an update and says whether it was done.

    What is there is modified, what is not is inserted. Refusals are the target's own, and raise nothing.
    With each write of an entry its meter is reset, as a P4Runtime server has to do ("Direct resources");
    BMv2's leaves a modified entry its meter, and gives a new one that of a deleted one.
    """

    def __init__(self, p4info: p4i.P4Info, send: Callable[[p4r.Update], bool]) -> None:
        self._send = send
        self._encode = EntryEncoder(p4info)
        declared = [*p4info.actions, *p4info.action_profiles, *p4info.counters, *p4info.meters]
        self._ids = {item.preamble.name: item.preamble.id for item in declared}
        metered = {meter.direct_table_id for meter in p4info.direct_meters}
        self._metered = {table.preamble.name for table in p4info.tables if table.preamble.id in metered}
        self._there: set[tuple[object, ...]] = set()

    def _put(self, entity: p4r.Entity, *identity: object) -> None:
        """Insert or modify what has this identity."""
        is_there = identity in self._there
        if self._send(p4r.Update(type=MODIFY if is_there else INSERT, entity=entity)):
            self._there.add(identity)

    def _remove(self, entity: p4r.Entity, *identity: object) -> None:
        """Delete what has this identity, whether it is there or not."""
        if self._send(p4r.Update(type=DELETE, entity=entity)):
            self._there.discard(identity)

    def _modify(self, entity: p4r.Entity) -> None:
        self._send(p4r.Update(type=MODIFY, entity=entity))

    # -- tables

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[str | None]:
        """Apply the updates one by one; None for each that was done."""
        return [None if self._write_entry(write) else "refused" for write in writes]

    def _write_entry(self, write: EntryWrite) -> bool:
        is_done = self._send(self._update(write))
        if is_done and write.change is not Change.DELETE and write.table in self._metered:
            self.set_entry_meter(EntryKey(write.table, write.key, write.priority), None)
        return is_done

    def _update(self, write: EntryWrite) -> p4r.Update:
        if not isinstance(write.action, OneShot):
            return self._encode(write)
        update = self._encode(write._replace(action=None))
        actions = update.entity.table_entry.action.action_profile_action_set.action_profile_actions
        for call, weight in write.action.members:
            self._call(call, actions.add(weight=weight).action)
        return update

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self._send(self._encode.default(table, action))

    def set_entry_counter(self, entry: EntryKey, value: CounterValue) -> None:
        entity = p4r.Entity()
        message = entity.direct_counter_entry
        message.table_entry.CopyFrom(self._encode.entry(*entry))
        message.data.packet_count, message.data.byte_count = value
        self._modify(entity)

    def set_entry_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        entity = p4r.Entity()
        entity.direct_meter_entry.table_entry.CopyFrom(self._encode.entry(*entry))
        _configure(entity.direct_meter_entry, config)
        self._modify(entity)

    # -- action profiles

    def _call(self, call: ActionCall, message: p4r.Action) -> None:
        message.action_id = self._ids[call.name]
        for number, value in enumerate(call.args, start=1):
            message.params.add(param_id=number, value=values.encode(value))

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        entity = p4r.Entity()
        message = entity.action_profile_member
        message.action_profile_id, message.member_id = self._ids[profile], member
        if action is None:
            self._remove(entity, "member", profile, member)
            return
        self._call(action, message.action)
        self._put(entity, "member", profile, member)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        """Members that are listed several times have that weight."""
        entity = p4r.Entity()
        message = entity.action_profile_group
        message.action_profile_id, message.group_id = self._ids[profile], group
        if members is None:
            self._remove(entity, "group", profile, group)
            return
        for member, weight in Counter(members).items():
            message.members.add(member_id=member, weight=weight)
        self._put(entity, "group", profile, group)

    # -- packet replication; what has no replicas is there nevertheless, and None removes it

    def write_multicast_group(self, group: int, replicas: Sequence[Replica] | None) -> None:
        entity = p4r.Entity()
        message = entity.packet_replication_engine_entry.multicast_group_entry
        message.multicast_group_id = group
        self._replicate(entity, message, replicas, "multicast group", group)

    def write_clone_session(self, session: int, replicas: Sequence[Replica] | None, length: int = 0) -> None:
        entity = p4r.Entity()
        message = entity.packet_replication_engine_entry.clone_session_entry
        message.session_id, message.packet_length_bytes = session, length
        self._replicate(entity, message, replicas, "clone session", session)

    def _replicate(
        self,
        entity: p4r.Entity,
        message: p4r.MulticastGroupEntry | p4r.CloneSessionEntry,
        replicas: Sequence[Replica] | None,
        *identity: object,
    ) -> None:
        if replicas is None:
            self._remove(entity, *identity)
            return
        for port, instance in replicas:
            message.replicas.add(egress_port=port, instance=instance)
        self._put(entity, *identity)

    # -- cells

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        entity = p4r.Entity()
        message = entity.counter_entry
        message.counter_id, message.index.index = self._ids[name], index
        message.data.packet_count, message.data.byte_count = value
        self._modify(entity)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        entity = p4r.Entity()
        entity.meter_entry.meter_id, entity.meter_entry.index.index = self._ids[name], index
        _configure(entity.meter_entry, config)
        self._modify(entity)


def _configure(message: p4r.MeterEntry | p4r.DirectMeterEntry, config: MeterConfig | None) -> None:
    if config is not None:
        rates = message.config
        rates.cir, rates.cburst, rates.pir, rates.pburst = timeless(config)
