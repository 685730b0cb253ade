"""Members and groups of an action profile, by the numbers that the control plane assigns."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch import ir
from softswitch.checks import check_group, check_member, check_use
from softswitch.memory.coding import data_words
from softswitch.memory.layout import Layout, ProfileLayout, group_reference, member_reference
from softswitch.pipeline import ActionCall, UseGroup, UseMember
from softswitch.state.memory import Memory
from softswitch.state.pool import RunPool

MemberOrGroup = UseMember | UseGroup


class Slots:
    """Slots by number; a new number gets the slot that was freed last, or else the lowest unused slot."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory  # for transactions
        self.by_number: dict[int, int] = {}
        self._free: list[int] = []

    def take(self, number: int) -> int:
        if number not in self.by_number:
            is_reused = bool(self._free)
            self.by_number[number] = self._free.pop() if is_reused else len(self.by_number)
            self._memory.on_undo(lambda: self._take_back(number, is_reused))
        return self.by_number[number]

    def release(self, number: int) -> int | None:
        slot = self.by_number.pop(number, None)
        if slot is not None:
            self._free.append(slot)
            self._memory.on_undo(lambda: self.by_number.update({number: self._free.pop()}))
        return slot

    def _take_back(self, number: int, is_reused: bool) -> None:
        slot = self.by_number.pop(number)
        if is_reused:
            self._free.append(slot)


class Profile:
    def __init__(self, program: ir.Program, layout: ProfileLayout, memory: Memory) -> None:
        self._program = program
        self._number = program.profiles.index(layout.profile)
        self._layout = layout
        self._memory = memory
        self._members, self._groups = Slots(memory), Slots(memory)
        self._pool = RunPool(memory, layout.pool, layout.pool_size)
        self.uses: dict[int, MemberOrGroup] = {}
        """Members and groups by the words of entries that refer to them; guarded by `Memory.control_lock`."""

    def write_member(self, member: int, action: ActionCall | None) -> None:
        with self._memory.control_lock:
            if action is None:
                slot = self._members.release(member)
                if slot is not None:
                    self._set_use(member_reference(slot), None)
                return
            invocation = check_member(self._program, self._number, member, action, self._members.by_number)
            words = data_words(self._program, invocation)
            slot = self._members.take(member)
            self._set_use(member_reference(slot), UseMember(member))
            offset = self._layout.members + slot * self._layout.stride
            with self._memory.locked():
                self._memory.store(offset, words)

    def write_group(self, group: int, members: Sequence[int] | None) -> None:
        with self._memory.control_lock:
            if members is None:
                self._remove_group(group)
                return
            other_words = self._pool.used - self._pool.length(group)
            slots, profile = self._members.by_number, self._layout.profile
            check_group(profile, group, members, slots, self._groups.by_number, other_words)
            references = [member_reference(slots[member]) for member in members]
            self._set_use(group_reference(self._groups.take(group)), UseGroup(group))
            with self._memory.locked():
                for number in self._pool.put(group, references):
                    self._set_run(self._groups.by_number[number], self._pool.word(number))

    def _remove_group(self, group: int) -> None:
        self._pool.remove(group)
        slot = self._groups.release(group)
        if slot is not None:
            self._set_use(group_reference(slot), None)
            with self._memory.locked():
                self._set_run(slot, 0)

    def _set_use(self, reference: int, use: MemberOrGroup | None) -> None:
        old_use = self.uses.pop(reference, None)
        if use is not None:
            self.uses[reference] = use
        self._memory.on_undo(lambda: self._restore_use(reference, old_use))

    def _restore_use(self, reference: int, use: MemberOrGroup | None) -> None:
        if use is None:
            self.uses.pop(reference, None)
        else:
            self.uses[reference] = use

    def _set_run(self, slot: int, run: int) -> None:
        self._memory.store(self._layout.groups + slot, [run])

    def reference(self, use: MemberOrGroup) -> int:
        is_member = isinstance(use, UseMember)
        slots = self._members.by_number if is_member else self._groups.by_number
        check_use(self._layout.profile, use, slots)
        (number,) = use  # of the member or group
        return (member_reference if is_member else group_reference)(slots[number])


class Profiles:
    """The action profiles of a program, by name (`softswitch.pipeline.ProfileOps`)."""

    def __init__(self, program: ir.Program, layout: Layout, memory: Memory) -> None:
        self.by_position = [Profile(program, profile, memory) for profile in layout.profiles]
        """Profiles in the order of `Program.profiles`."""
        names = (profile.name for profile in program.profiles)
        self._by_name = dict(zip(names, self.by_position, strict=True))

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        self._by_name[profile].write_member(member, action)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        self._by_name[profile].write_group(group, members)
