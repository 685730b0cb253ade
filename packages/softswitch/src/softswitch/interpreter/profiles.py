"""Members and groups of action profiles. BMv2: action_profile.cpp."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch import checks, ir
from softswitch.pipeline import ActionCall, UseGroup, UseMember


class ProfileState:
    def __init__(self, program: ir.Program, profile_index: int) -> None:
        self._program = program
        self._profile_index = profile_index
        self._profile = program.profiles[profile_index]
        self._members: dict[int, ActionCall] = {}
        self._groups: dict[int, tuple[int, ...]] = {}
        self._grouped_member_count = 0  # sum of the groups' lengths

    def choose(self, reference: UseMember | UseGroup, hash_value: int) -> ActionCall | None:
        if isinstance(reference, UseMember):
            return self._members[reference.member]
        members = self._groups[reference.group]
        return self._members[members[hash_value % len(members)]] if members else None

    def write_member(self, member: int, action: ActionCall | None) -> None:
        if action is None:
            self._members.pop(member, None)
            return
        checks.check_member(self._program, self._profile_index, member, action, self._members)
        self._members[member] = action

    def write_group(self, group: int, members: Sequence[int] | None) -> None:
        other_member_count = self._grouped_member_count - len(self._groups.get(group, ()))
        if members is None:
            self._groups.pop(group, None)
            self._grouped_member_count = other_member_count
            return
        checks.check_group(self._profile, group, members, self._members, self._groups, other_member_count)
        self._groups[group] = tuple(members)
        self._grouped_member_count = other_member_count + len(members)

    def check_use(self, reference: UseMember | UseGroup) -> None:
        definitions = self._members if isinstance(reference, UseMember) else self._groups
        checks.check_use(self._profile, reference, definitions)
