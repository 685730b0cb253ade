"""Calls on members and groups of action profiles, which have BMv2's handles."""

from __future__ import annotations

from collections.abc import Container
from itertools import count

from grpc import StatusCode

from softswitch.p4runtime.batch import DELETE, INSERT, MODIFY
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.profiles import ProfileStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal
from softswitch.runtime.actions import fill_call, find_group, find_member, format_data
from softswitch.runtime.base import PL, RuntimeCalls, update
from softswitch.runtime.interface import Group, Member
from softswitch.runtime.refusals import TABLE, TABLE_CODES, RuntimeRefusal, refuse

_IN_USE = StatusCode.FAILED_PRECONDITION


class ProfileCalls(RuntimeCalls[PL]):
    """Calls on action profiles. New members and groups have the lowest free ID of P4Runtime."""

    # -- members

    def member_create(self, profile: str, action: str, data: list[str]) -> int:
        control, store = self._find_profile(profile)
        member = _lowest_free_id(store.members)
        self._write_member(control, store, INSERT, member, action, data)
        return store.numbers.member_number(member)

    def member_modify(self, profile: str, member: int, action: str, data: list[str]) -> None:
        control, store = self._find_profile(profile)
        self._write_member(control, store, MODIFY, find_member(store, member), action, data)

    def member_delete(self, profile: str, member: int) -> None:
        control, store = self._find_profile(profile)
        message = p4r.ActionProfileMember(
            action_profile_id=store.profile.id, member_id=find_member(store, member)
        )
        _write(control, DELETE, p4r.Entity(action_profile_member=message), "MBR_STILL_USED")

    def members(self, profile: str) -> list[Member]:
        _, store = self._find_profile(profile)
        members = [
            Member(handle=store.numbers.member_number(member), action=call.name, data=format_data(call))
            for member, call in store.members.items()
        ]
        return sorted(members, key=lambda member: member["handle"])

    # -- groups

    def group_create(self, profile: str) -> int:
        control, store = self._find_profile(profile, needs_selector=True)
        group = _lowest_free_id(store.groups)
        message = p4r.ActionProfileGroup(action_profile_id=store.profile.id, group_id=group)
        _write(control, INSERT, p4r.Entity(action_profile_group=message))
        handle = store.numbers.group_number(group)
        assert handle is not None
        return handle

    def group_delete(self, profile: str, group: int) -> None:
        control, store = self._find_profile(profile, needs_selector=True)
        message = p4r.ActionProfileGroup(
            action_profile_id=store.profile.id, group_id=find_group(store, group)
        )
        _write(control, DELETE, p4r.Entity(action_profile_group=message), "GRP_STILL_USED")

    def group_add(self, profile: str, group: int, member: int) -> None:
        control, store, message, member_id = self._find_membership(profile, group, member)
        if member_id in [group_member.member_id for group_member in message.members]:
            text = f"group {group} of action profile {profile} has member {member} already"
            raise RuntimeRefusal(TABLE, "MBR_ALREADY_IN_GRP", text)
        weight = 0 if store.profile.weights_disallowed else 1
        message.members.add(member_id=member_id, weight=weight)
        _write(control, MODIFY, p4r.Entity(action_profile_group=message))

    def group_remove(self, profile: str, group: int, member: int) -> None:
        control, _, message, member_id = self._find_membership(profile, group, member)
        remaining_members = [
            group_member for group_member in message.members if group_member.member_id != member_id
        ]
        if len(remaining_members) == len(message.members):
            text = f"group {group} of action profile {profile} has no member {member}"
            raise RuntimeRefusal(TABLE, "MBR_NOT_IN_GRP", text)
        del message.members[:]
        message.members.extend(remaining_members)
        _write(control, MODIFY, p4r.Entity(action_profile_group=message))

    def groups(self, profile: str) -> list[Group]:
        _, store = self._find_profile(profile, needs_selector=True)
        numbers = store.numbers
        groups = [
            Group(
                handle=handle,
                members=sorted(numbers.member_number(member.member_id) for member in message.members),
            )
            for group, message in store.groups.items()
            if (handle := numbers.group_number(group)) is not None
        ]
        return sorted(groups, key=lambda group: group["handle"])

    # -- helpers

    def _find_profile(
        self, name: str, needs_selector: bool = False
    ) -> tuple[ControlledPipeline[PL], ProfileStore]:
        control = self.control()
        store = control.profiles.find_by_name(name)
        if store is None:
            text = f"the program has no action profile {name}"
            raise RuntimeRefusal(TABLE, "INVALID_ACTION_PROFILE_NAME", text)
        if needs_selector and not store.profile.has_selector:
            text = f"action profile {name} has no selector, and so no groups"
            raise RuntimeRefusal(TABLE, "NO_ACTION_PROFILE_SELECTION", text)
        return control, store

    def _find_membership(
        self, profile: str, group: int, member: int
    ) -> tuple[ControlledPipeline[PL], ProfileStore, p4r.ActionProfileGroup, int]:
        control, store = self._find_profile(profile, needs_selector=True)
        message = p4r.ActionProfileGroup()
        message.CopyFrom(store.groups[find_group(store, group)])
        return control, store, message, find_member(store, member)

    def _write_member(
        self,
        control: ControlledPipeline[PL],
        store: ProfileStore,
        update_type: int,
        member: int,
        action: str,
        data: list[str],
    ) -> None:
        message = p4r.ActionProfileMember(action_profile_id=store.profile.id, member_id=member)
        fill_call(control, action, data, message.action)
        _write(control, update_type, p4r.Entity(action_profile_member=message))


def _lowest_free_id(used_ids: Container[int]) -> int:
    return next(object_id for object_id in count(1) if object_id not in used_ids)


def _write(
    control: ControlledPipeline[PL], update_type: int, entity: p4r.Entity, in_use_code: str = "ERROR"
) -> None:
    try:
        update(control, update_type, entity)
    except Refusal as refusal:
        refuse(TABLE, refusal, {**TABLE_CODES, _IN_USE: in_use_code})
