"""Members and groups of action profiles. BMv2: action_profile.cpp."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch import checks, ir
from softswitch.pipeline import ActionCall, UseGroup, UseMember


class ProfileState:
    def __init__(self, program: ir.Program, number: int) -> None:
        self._program = program
        self._number = number
        self._profile = program.profiles[number]
        self._members: dict[int, ActionCall] = {}
        self._groups: dict[int, tuple[int, ...]] = {}

    def choose(self, resolved: UseMember | UseGroup, hash_value: int) -> ActionCall | None:
        if isinstance(resolved, UseMember):
            return self._members[resolved.member]
        members = self._groups[resolved.group]
        return self._members[members[hash_value % len(members)]] if members else None

    def write_member(self, member: int, action: ActionCall | None) -> None:
        if action is None:
            self._members.pop(member, None)
            return
        checks.check_member(self._program, self._number, member, action, self._members)
        self._members[member] = action

    def write_group(self, group: int, members: Sequence[int] | None) -> None:
        if members is None:
            self._groups.pop(group, None)
            return
        others = sum(len(other_members) for number, other_members in self._groups.items() if number != group)
        checks.check_group(self._profile, group, members, self._members, self._groups, others)
        self._groups[group] = tuple(members)

    def check_use(self, use: UseMember | UseGroup) -> None:
        existing = self._members if isinstance(use, UseMember) else self._groups
        checks.check_use(self._profile, use, existing)
