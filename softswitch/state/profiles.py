"""Members and groups of an action profile, by the control plane's numbers."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch import ir
from softswitch.errors import StateError, TableFull
from softswitch.memory.layout import GROUP, ProfileLayout
from softswitch.pipeline import ActionCall, UseGroup, UseMember
from softswitch.state.coding import data_words
from softswitch.state.memory import Memory
from softswitch.state.pool import RunPool


class Slots:
    """Gives each number one of `size` places, the lowest free one."""

    def __init__(self, size: int, what: str) -> None:
        self._size = size
        self._what = what
        self.place: dict[int, int] = {}
        self.number: dict[int, int] = {}
        self._free: list[int] = []

    def take(self, number: int) -> int:
        """The place of a number, a new one if it has none; `TableFull` if all are taken."""
        if number in self.place:
            return self.place[number]
        if len(self.place) == self._size:
            raise TableFull(f"{self._what} is full: it holds its {self._size}")
        place = self._free.pop() if self._free else len(self.place)
        self.place[number], self.number[place] = place, number
        return place

    def give_back(self, number: int) -> None:
        """Free the place of a number, if it has one."""
        place = self.place.pop(number, None)
        if place is not None:
            del self.number[place]
            self._free.append(place)


class Profile:
    """One action profile in the shared memory."""

    def __init__(self, program: ir.Program, layout: ProfileLayout, memory: Memory) -> None:
        self._program = program
        self._layout = layout
        self._memory = memory
        name, size = layout.profile.name, layout.profile.size
        self._members = Slots(size, f"action profile {name} (members)")
        self._groups = Slots(size, f"action profile {name} (groups)")
        self._pool = RunPool(memory.words[layout.pool : layout.pool + layout.pool_size])
        self._actions = program.profile_actions(program.profiles.index(layout.profile))

    def write_member(self, member: int, action: ActionCall | None) -> None:
        """Add or change a member, None removes it (`Pipeline.write_member`)."""
        if action is None:
            self._members.give_back(member)
            return
        if action.name not in self._actions:
            raise StateError(f"action profile {self._layout.profile.name} has no action {action.name}")
        words = data_words(self._program, ir.Invocation(self._actions[action.name], action.args))
        at = self._layout.members + self._members.take(member) * self._layout.stride
        with self._memory.locked():
            self._memory.words[at : at + len(words)] = words

    def write_group(self, group: int, members: Sequence[int] | None) -> None:
        """Add or change a group, None removes it (`Pipeline.write_group`)."""
        name = self._layout.profile.name
        if members is None:
            place = self._groups.place.get(group)
            self._pool.remove(group)
            self._groups.give_back(group)
            if place is not None:
                with self._memory.locked():
                    self._memory.words[self._layout.groups + place] = 0
            return
        if not self._pool.fits(group, len(members)):
            raise TableFull(
                f"action profile {name} is full: its groups hold {self._layout.pool_size} members"
            )
        references = [self.reference(UseMember(member)) for member in members]
        self._groups.take(group)
        with self._memory.locked():
            moved = self._pool.put(group, references)
            for number in self._groups.place if moved else (group,):
                place = self._groups.place[number]
                self._memory.words[self._layout.groups + place] = self._pool.word(number)

    def reference(self, use: UseMember | UseGroup) -> int:
        """The word by which an entry refers to a member or group."""
        slots = self._members if isinstance(use, UseMember) else self._groups
        if use[0] not in slots.place:
            what = "member" if isinstance(use, UseMember) else "group"
            raise StateError(f"action profile {self._layout.profile.name} has no {what} {use[0]}")
        place = slots.place[use[0]]
        return place + 1 if isinstance(use, UseMember) else GROUP | place

    def use(self, reference: int) -> UseMember | UseGroup:
        """The inverse of `reference`."""
        if reference & GROUP:
            return UseGroup(self._groups.number[reference ^ GROUP])
        return UseMember(self._members.number[reference - 1])
