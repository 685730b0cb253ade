"""In which order a group's members are picked: as in BMv2 under PI, its P4Runtime server.

BMv2 numbers the members of a profile, each new one with the lowest free number, and hash h picks the member
of rank h modulo size by number. PI makes a member as many times as the largest weight that it has in any
group, and a group with weight w of it has its first w copies (PI: proto/frontend/src/action_prof_mgr.cpp).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy


class LowestFree:
    """Numbers from 0, always the lowest that is free."""

    def __init__(self) -> None:
        self._unused = 0
        self._returned: list[int] = []

    def take(self) -> int:
        """The lowest free number, which is then in use."""
        if self._returned:
            return heapq.heappop(self._returned)
        self._unused += 1
        return self._unused - 1

    def give(self, number: int) -> None:
        """Give a number back."""
        heapq.heappush(self._returned, number)


class MemberNumbers:
    """BMv2's numbers of the members of one profile, and so the order of each group.

    Members and groups are the controller's IDs. What one-shots make has only numbers; `groups` has those of
    all groups.
    """

    def __init__(self) -> None:
        self.groups = LowestFree()
        self._free = LowestFree()
        self._copies: dict[int, list[int]] = {}
        self._groups: dict[int, dict[int, int]] = {}
        self._group_numbers: dict[int, int] = {}

    def keep(self) -> Callable[[], None]:
        """Copy the state, and return what makes it again what it is now."""
        before = deepcopy(self.__dict__)
        return lambda: self.__dict__.update(before)

    def add_member(self, member: int) -> None:
        """A member is inserted."""
        self._copies[member] = [self._free.take()]

    def remove_member(self, member: int) -> None:
        """A member that is in no group is deleted."""
        self.give(self._copies.pop(member))

    def set_group(self, group: int, weights: Mapping[int, int]) -> list[int]:
        """A group is inserted or modified to have these members; they in the order in which it picks them."""
        before = self._groups.get(group, {})
        if group not in self._groups:
            self._group_numbers[group] = self.groups.take()
        for member in sorted(weights):
            copies = self._copies[member]
            copies += [self._free.take() for _ in range(weights[member] - len(copies))]
        self._groups[group] = dict(weights)
        for member in sorted(before.keys() | weights.keys()):
            self._purge(member)
        numbered = [(n, member) for member, w in weights.items() for n in self._copies[member][:w]]
        return [member for _, member in sorted(numbered)]

    def remove_group(self, group: int) -> None:
        """A group is deleted."""
        for member in sorted(self._groups.pop(group)):
            self._purge(member)
        self.groups.give(self._group_numbers.pop(group))

    def member_numbers(self) -> dict[int, int]:
        """BMv2's numbers of the controller's members, by its IDs: of copies the first."""
        return {member: copies[0] for member, copies in self._copies.items()}

    def group_numbers(self) -> dict[int, int]:
        """BMv2's numbers of the controller's groups, by its IDs."""
        return dict(self._group_numbers)

    def take(self, count: int) -> list[int]:
        """Numbers of new members without ID."""
        return [self._free.take() for _ in range(count)]

    def give(self, numbers: Iterable[int]) -> None:
        """Free the numbers of deleted members."""
        for number in numbers:
            self._free.give(number)

    def _purge(self, member: int) -> None:
        """Delete the copies of a member that no group has."""
        copies = self._copies[member]
        most = max((weights.get(member, 0) for weights in self._groups.values()), default=0)
        while len(copies) > max(most, 1):
            self._free.give(copies.pop())
