"""Members and groups of action profiles: writes and reads (P4Runtime 1.4 §9.2.1, §9.2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grpc import StatusCode

from softswitch.messages import pluralize
from softswitch.p4runtime.batch import DELETE, INSERT, Batch
from softswitch.p4runtime.entities.actions import decode_call, encode_call
from softswitch.p4runtime.entities.profiles import GroupMember, ProfileStore, ProfileStores, watched_port
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ActionCall


class Members:
    def __init__(self, profiles: ProfileStores, actions: Mapping[str, ActionInfo]) -> None:
        self._profiles = profiles
        self._actions = actions

    def write(self, update_type: int, message: p4r.ActionProfileMember, batch: Batch) -> None:
        store = self._profiles[message.action_profile_id]
        member = message.member_id
        store.check_no_one_shots()
        if not member:
            raise invalid(f"action profile {store.name}: member ID 0 is reserved for wildcards")
        if update_type == DELETE:
            _delete_member(store, member, batch)
            return
        if not message.HasField("action"):
            raise invalid(f"action profile {store.name}: the action of member {member} is missing")
        call = decode_call(store.profile.actions, message.action, f"action profile {store.name}")
        if update_type == INSERT:
            _insert_member(store, member, batch)
        else:
            store.check_member(member)
        _put_member(store, member, call, batch)

    def read(self, query: p4r.ActionProfileMember) -> Iterator[p4r.Entity]:
        stores = self._profiles.select(query.action_profile_id, query.member_id, "member")
        members = [
            (store.profile.id, member, call)
            for store in stores
            for member, call in store.members.items()
            if query.member_id in (0, member)
        ]
        return (self._make_entity(*fields) for fields in members)

    def _make_entity(self, profile_id: int, member_id: int, call: ActionCall) -> p4r.Entity:
        entity = p4r.Entity()
        message = entity.action_profile_member
        message.action_profile_id, message.member_id = profile_id, member_id
        encode_call(self._actions, call, message.action)
        return entity


def _insert_member(store: ProfileStore, member: int, batch: Batch) -> None:
    if member in store.members:
        text = f"action profile {store.name}: member {member} is already there"
        raise Refusal(StatusCode.ALREADY_EXISTS, text)
    if len(store.members) >= store.size:
        raise store.full_error("member")
    store.numbers.add_member(member, batch.on_undo)


def _delete_member(store: ProfileStore, member: int, batch: Batch) -> None:
    store.check_member(member)
    if uses := store.member_uses.get(member):
        users = pluralize(uses, "entry or group", "entries or groups")
        text = f"action profile {store.name}: member {member} is used by {users}"
        raise Refusal(StatusCode.FAILED_PRECONDITION, text)
    store.numbers.remove_member(member, batch.on_undo)
    _put_member(store, member, None, batch)


def _put_member(store: ProfileStore, member: int, call: ActionCall | None, batch: Batch) -> None:
    batch.put(store.members, member, call)
    holder = "member", store.name, member
    if call is None:
        batch.release_strings(holder)
    else:
        batch.hold_strings(holder)
    batch.add(lambda pipeline: pipeline.profiles.write_member(store.name, member, call))


class Groups:
    def __init__(self, profiles: ProfileStores) -> None:
        self._profiles = profiles

    def write(self, update_type: int, message: p4r.ActionProfileGroup, batch: Batch) -> None:
        store = self._profiles[message.action_profile_id]
        group = message.group_id
        store.check_no_one_shots()
        if not store.profile.has_selector:
            raise invalid(f"action profile {store.name} has no selector, and so no groups")
        if not group:
            raise invalid(f"action profile {store.name}: group ID 0 is reserved for wildcards")
        old = store.groups.get(group)
        if update_type == INSERT:
            _check_insert(store, message)
        elif old is None:
            raise store.missing_error("group", group)
        if update_type == DELETE:
            _delete_group(store, group, batch)
        else:
            _put_group(store, old, message, batch)

    def read(self, query: p4r.ActionProfileGroup) -> Iterator[p4r.Entity]:
        stores = self._profiles.select(query.action_profile_id, query.group_id, "group")
        messages = [
            message
            for store in stores
            for group_id, message in store.groups.items()
            if query.group_id in (0, group_id)
        ]
        return (p4r.Entity(action_profile_group=message) for message in messages)


def _check_insert(store: ProfileStore, message: p4r.ActionProfileGroup) -> None:
    group, limit = message.group_id, store.profile.max_group_size
    if group in store.groups:
        text = f"action profile {store.name}: group {group} is already there"
        raise Refusal(StatusCode.ALREADY_EXISTS, text)
    if message.max_size < 0 or 0 < limit < message.max_size:
        expected = f"0 to {limit}" if limit else "at least 0"
        raise invalid(
            f"action profile {store.name}: expected {expected} as max_size of group {group}, "
            f"got {message.max_size}"
        )
    if len(store.groups) >= store.size:
        raise store.full_error("group")


def _put_group(
    store: ProfileStore, old: p4r.ActionProfileGroup | None, message: p4r.ActionProfileGroup, batch: Batch
) -> None:
    location, group = f"action profile {store.name}, group {message.group_id}", message.group_id
    if old is not None and message.max_size != old.max_size:
        raise invalid(f"{location}: max_size cannot be changed from {old.max_size} to {message.max_size}")
    weights: dict[int, int] = {}
    watched_ports: dict[int, int | None] = {}
    for member in message.members:
        if member.member_id in weights:
            raise invalid(f"{location}: member {member.member_id} is given twice, use its weight instead")
        store.check_member(member.member_id)
        weights[member.member_id] = store.check_weight(member.weight)
        watched_ports[member.member_id] = watched_port(member, location, store.port_translation)
    store.check_group_size([*weights.values()], message.max_size or store.profile.max_group_size, group)
    copy = p4r.ActionProfileGroup()
    copy.CopyFrom(message)
    _change_uses(store, old, copy, batch)
    batch.put(store.groups, group, copy)
    batch.hold_strings(("group", store.name, group))
    order = store.numbers.set_group(group, weights, batch.on_undo)
    store.group_sizes.put(group, len(order), batch)
    store.put_group_order(group, [GroupMember(member, watched_ports[member]) for member in order], batch)


def _delete_group(store: ProfileStore, group: int, batch: Batch) -> None:
    if uses := store.group_uses.get(group):
        text = f"action profile {store.name}: group {group} is used by {pluralize(uses, 'entry', 'entries')}"
        raise Refusal(StatusCode.FAILED_PRECONDITION, text)
    _change_uses(store, store.groups[group], None, batch)
    batch.put(store.groups, group, None)
    batch.release_strings(("group", store.name, group))
    store.group_sizes.put(group, None, batch)
    batch.put(store.group_orders, group, None)
    store.numbers.remove_group(group, batch.on_undo)
    batch.add(lambda pipeline: pipeline.profiles.write_group(store.name, group, None))


def _change_uses(
    store: ProfileStore,
    old: p4r.ActionProfileGroup | None,
    new: p4r.ActionProfileGroup | None,
    batch: Batch,
) -> None:
    for change, group in ((-1, old), (1, new)):
        for member in group.members if group is not None else ():
            store.change_uses(store.member_uses, member.member_id, change, batch)
