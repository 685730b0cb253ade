"""Writes and reads of `ActionProfileMember` (P4Runtime 1.4 §9.2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grpc import StatusCode

from softswitch.messages import pluralize
from softswitch.p4runtime.batch import DELETE, INSERT, Batch
from softswitch.p4runtime.entities.actions import decode_call, encode_call
from softswitch.p4runtime.entities.profiles import Profiles, ProfileStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ActionCall


class Members:
    def __init__(self, profiles: Profiles, actions: Mapping[str, ActionInfo]) -> None:
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
