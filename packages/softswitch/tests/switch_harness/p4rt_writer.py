"""A `Pipeline`'s writes as P4Runtime updates: what draws state for pipelines draws it for any target.

Meters get a rate that no clock can be seen in: bursts that never fill again, or always do (`timeless`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from softswitch.conformance.encoding import EntityEncoder, clone_session, multicast_group
from softswitch.p4runtime.messages import p4i, p4r
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
    """The writing half of a `Pipeline`, with the methods of all its subjects.

    `send` takes an update and returns whether it was applied.

    What is there is modified, what is not is inserted. Refusals are the target's own, and raise nothing.
    With each write of an entry its meter is reset, as a P4Runtime server has to do ("Direct resources");
    BMv2's leaves a modified entry its meter, and gives a new one that of a deleted one.
    """

    def __init__(self, p4info: p4i.P4Info, send: Callable[[p4r.Update], bool]) -> None:
        self._send = send
        self._encoder = EntityEncoder(p4info)
        metered = {meter.direct_table_id for meter in p4info.direct_meters}
        self._metered = {table.preamble.name for table in p4info.tables if table.preamble.id in metered}
        self._there: set[tuple[object, ...]] = set()

    @property
    def tables(self) -> P4RuntimeWriter:
        return self

    profiles = replication = cells = tables

    def _put_or_remove(self, entity: p4r.Entity, is_put: bool, *identity: object) -> None:
        """Insert or modify what has this identity, or delete it, whether it is there or not."""
        if not is_put:
            if self._send(p4r.Update(type=DELETE, entity=entity)):
                self._there.discard(identity)
        elif self._send(p4r.Update(type=MODIFY if identity in self._there else INSERT, entity=entity)):
            self._there.add(identity)

    def _modify(self, entity: p4r.Entity) -> None:
        self._send(p4r.Update(type=MODIFY, entity=entity))

    # -- tables

    def write(self, writes: Sequence[EntryWrite]) -> list[str | None]:
        return [None if self._write_entry(write) else "refused" for write in writes]

    def _write_entry(self, write: EntryWrite) -> bool:
        is_done = self._send(self._update(write))
        if is_done and write.change is not Change.DELETE and write.table in self._metered:
            self.set_meter(EntryKey(write.table, write.key, write.priority), None)
        return is_done

    def _update(self, write: EntryWrite) -> p4r.Update:
        if not isinstance(write.action, OneShot):
            return self._encoder.update(write)
        update = self._encoder.update(write._replace(action=None))
        actions = update.entity.table_entry.action.action_profile_action_set.action_profile_actions
        for call, weight in write.action.members:
            actions.add(weight=weight, action=self._encoder.call(call))
        return update

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self._modify(self._encoder.default(table, action))

    def set_counter(self, entry: EntryKey, value: CounterValue) -> None:
        self._modify(self._encoder.entry_counter(entry, value))

    def set_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        self._modify(self._encoder.entry_meter(entry, config and timeless(config)))

    # -- action profiles; None deletes

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        entity = self._encoder.member(profile, member, action)
        self._put_or_remove(entity, action is not None, "member", profile, member)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        entity = self._encoder.group(profile, group, members or ())
        self._put_or_remove(entity, members is not None, "group", profile, group)

    # -- packet replication; what has no replicas is there nevertheless, and None removes it

    def write_multicast_group(self, group: int, replicas: Sequence[Replica] | None) -> None:
        entity = multicast_group(group, replicas or ())
        self._put_or_remove(entity, replicas is not None, "multicast group", group)

    def write_clone_session(self, session: int, replicas: Sequence[Replica] | None, length: int = 0) -> None:
        entity = clone_session(session, replicas or (), length)
        self._put_or_remove(entity, replicas is not None, "clone session", session)

    # -- cells

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        self._modify(self._encoder.counter(name, index, value))

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        self._modify(self._encoder.meter(name, index, config and timeless(config)))
