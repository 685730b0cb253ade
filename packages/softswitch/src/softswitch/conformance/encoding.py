"""P4Runtime messages for a program's tables, profiles, counters, meters and replication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from softswitch.ir import Masked, Match, RangeMatch
from softswitch.p4runtime.codecs.values import encode
from softswitch.p4runtime.entities.cells import encode_config
from softswitch.p4runtime.entities.replication import encode_replicas
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
    UseGroup,
    UseMember,
)

UPDATE_TYPES = {
    Change.INSERT: p4r.Update.INSERT,
    Change.MODIFY: p4r.Update.MODIFY,
    Change.DELETE: p4r.Update.DELETE,
}


class GroupWrite(NamedTuple):
    change: Change
    group: int
    replicas: tuple[Replica, ...] = ()


class EntityEncoder:
    def __init__(self, p4info: p4i.P4Info) -> None:
        self._tables = {table.preamble.name: table for table in p4info.tables}
        preambles = [action.preamble for action in p4info.actions]
        preambles += [profile.preamble for profile in p4info.action_profiles]
        preambles += [counter.preamble for counter in p4info.counters]
        preambles += [meter.preamble for meter in p4info.meters]
        self._ids = {preamble.name: preamble.id for preamble in preambles}
        self._parameters = {
            action.preamble.name: [parameter.id for parameter in action.params] for action in p4info.actions
        }

    # -- tables

    def update(self, write: EntryWrite | GroupWrite) -> p4r.Update:
        update = p4r.Update(type=UPDATE_TYPES[write.change])
        if isinstance(write, GroupWrite):
            update.entity.CopyFrom(multicast_group(write.group, write.replicas))
            return update
        self._fill_key(update.entity.table_entry, EntryKey(write.table, write.key, write.priority))
        if write.action is not None:
            self._set_action(update.entity.table_entry, write.action)
        return update

    def default(self, table: str, action: EntryAction | None) -> p4r.Entity:
        """Return a table's default entry; an action of None resets it (P4Runtime 1.4 §9.1.4)."""
        entry = p4r.TableEntry(table_id=self._tables[table].preamble.id, is_default_action=True)
        if action is not None:
            self._set_action(entry, action)
        return p4r.Entity(table_entry=entry)

    def entry(self, key: EntryKey) -> p4r.TableEntry:
        entry = p4r.TableEntry()
        self._fill_key(entry, key)
        return entry

    def call(self, call: ActionCall) -> p4r.Action:
        action = p4r.Action()
        self._fill_call(action, call)
        return action

    def _fill_key(self, entry: p4r.TableEntry, key: EntryKey) -> None:
        table = self._tables[key.table]
        entry.table_id, entry.priority = table.preamble.id, key.priority
        for field, match in zip(table.match_fields, key.key, strict=True):
            _add_match(entry, field, match)

    def _fill_call(self, action: p4r.Action, call: ActionCall) -> None:
        action.action_id = self._ids[call.name]
        for number, value in zip(self._parameters[call.name], call.args, strict=True):
            action.params.add(param_id=number, value=encode(value))

    def _set_action(self, entry: p4r.TableEntry, action: EntryAction) -> None:
        match action:
            case UseMember(member):
                entry.action.action_profile_member_id = member
            case UseGroup(group):
                entry.action.action_profile_group_id = group
            case ActionCall():
                self._fill_call(entry.action.action, action)

    # -- action profiles

    def member(self, profile: str, member: int, action: ActionCall | None = None) -> p4r.Entity:
        message = p4r.ActionProfileMember(action_profile_id=self._ids[profile], member_id=member)
        if action is not None:
            message.action.CopyFrom(self.call(action))
        return p4r.Entity(action_profile_member=message)

    def group(self, profile: str, group: int, members: Sequence[int] = ()) -> p4r.Entity:
        """Return a group; the weight of a member is the number of times that it is listed."""
        message = p4r.ActionProfileGroup(action_profile_id=self._ids[profile], group_id=group)
        for member, weight in Counter(members).items():
            message.members.add(member_id=member, weight=weight)
        return p4r.Entity(action_profile_group=message)

    # -- counters and meters

    def counter(self, name: str, index: int, value: CounterValue | None = None) -> p4r.Entity:
        entry = p4r.CounterEntry(counter_id=self._ids[name], index=p4r.Index(index=index))
        if value is not None:
            entry.data.packet_count, entry.data.byte_count = value
        return p4r.Entity(counter_entry=entry)

    def entry_counter(self, key: EntryKey, value: CounterValue | None = None) -> p4r.Entity:
        entry = p4r.DirectCounterEntry(table_entry=self.entry(key))
        if value is not None:
            entry.data.packet_count, entry.data.byte_count = value
        return p4r.Entity(direct_counter_entry=entry)

    def meter(self, name: str, index: int, config: MeterConfig | None) -> p4r.Entity:
        """Return the rates of a meter's cell; a config of None makes every packet green."""
        cell = p4r.Index(index=index)
        entry = p4r.MeterEntry(meter_id=self._ids[name], index=cell, config=_encode_rates(config))
        return p4r.Entity(meter_entry=entry)

    def entry_meter(self, key: EntryKey, config: MeterConfig | None) -> p4r.Entity:
        entry = p4r.DirectMeterEntry(table_entry=self.entry(key), config=_encode_rates(config))
        return p4r.Entity(direct_meter_entry=entry)


def multicast_group(group: int, replicas: Sequence[Replica] = ()) -> p4r.Entity:
    entry = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=encode_replicas(replicas))
    return _replication_entity(p4r.PacketReplicationEngineEntry(multicast_group_entry=entry))


def clone_session(session: int, replicas: Sequence[Replica] = (), length: int = 0) -> p4r.Entity:
    """Return a clone session; a `length` of 0 does not truncate."""
    entry = p4r.CloneSessionEntry(
        session_id=session, replicas=encode_replicas(replicas), packet_length_bytes=length
    )
    return _replication_entity(p4r.PacketReplicationEngineEntry(clone_session_entry=entry))


def _replication_entity(entry: p4r.PacketReplicationEngineEntry) -> p4r.Entity:
    return p4r.Entity(packet_replication_engine_entry=entry)


def _encode_rates(config: MeterConfig | None) -> p4r.MeterConfig | None:
    if config is None:
        return None
    message = p4r.MeterConfig()
    encode_config(config, message)
    return message


def _add_match(entry: p4r.TableEntry, field: p4i.MatchField, match: Match) -> None:
    """Add a match field in canonical form: nothing if any value matches (P4Runtime 1.4 §9.1.1)."""
    match match:
        case int(value):
            entry.match.add(field_id=field.id).exact.value = encode(value)
        case Masked(_, 0):
            pass
        case RangeMatch(0, high) if high == (1 << field.bitwidth) - 1:
            pass
        case RangeMatch(low, high):
            bounds = entry.match.add(field_id=field.id).range
            bounds.low, bounds.high = encode(low), encode(high)
        case Masked(value, mask) if field.match_type == p4i.MatchField.LPM:
            lpm = entry.match.add(field_id=field.id).lpm
            lpm.value, lpm.prefix_len = encode(value), mask.bit_count()
        case Masked(value, mask) if field.match_type == p4i.MatchField.TERNARY:
            ternary = entry.match.add(field_id=field.id).ternary
            ternary.value, ternary.mask = encode(value), encode(mask)
        case Masked(value, _):
            entry.match.add(field_id=field.id).optional.value = encode(value)
