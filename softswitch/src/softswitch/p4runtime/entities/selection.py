"""The order in which a group's members are picked, as in BMv2 under PI, its P4Runtime server.

BMv2 numbers the members of a profile, each new one with the lowest free number. A hash h picks the member at
position h modulo size, in order of these numbers. PI creates as many copies of a member as its largest weight
in any group; with weight w, a group has the first w copies (PI: proto/frontend/src/action_prof_mgr.cpp).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy


class NumberAllocator:
    def __init__(self) -> None:
        self._next = 0
        self._freed: list[int] = []

    def allocate(self) -> int:
        if self._freed:
            return heapq.heappop(self._freed)
        self._next += 1
        return self._next - 1

    def free(self, number: int) -> None:
        heapq.heappush(self._freed, number)


class MemberNumbers:
    """BMv2's numbers of the members of one profile, which determine the order of each group.

    Arguments are the controller's IDs of members and groups. Members of one-shots have no IDs, only numbers
    (`allocate`). `group_allocator` allocates the numbers of all groups.
    """

    def __init__(self) -> None:
        self.group_allocator = NumberAllocator()
        self._allocator = NumberAllocator()
        self._copies: dict[int, list[int]] = {}  # numbers of the copies, by member
        self._group_weights: dict[int, dict[int, int]] = {}  # weights by group and member
        self._group_numbers: dict[int, int] = {}

    def snapshot(self) -> Callable[[], None]:
        state = deepcopy(self.__dict__)
        return lambda: self.__dict__.update(state)

    def add_member(self, member: int) -> None:
        self._copies[member] = [self._allocator.allocate()]

    def remove_member(self, member: int) -> None:
        self.free(self._copies.pop(member))

    def set_group(self, group: int, weights: Mapping[int, int]) -> list[int]:
        """Set the members of a group and their weights; return them in the order in which they are picked."""
        old_weights = self._group_weights.get(group, {})
        if group not in self._group_weights:
            self._group_numbers[group] = self.group_allocator.allocate()
        for member in sorted(weights):
            copies = self._copies[member]
            copies += [self._allocator.allocate() for _ in range(weights[member] - len(copies))]
        self._group_weights[group] = dict(weights)
        for member in sorted(old_weights.keys() | weights.keys()):
            self._free_surplus_copies(member)
        numbered_members = [
            (number, member) for member, weight in weights.items() for number in self._copies[member][:weight]
        ]
        return [member for _, member in sorted(numbered_members)]

    def remove_group(self, group: int) -> None:
        for member in sorted(self._group_weights.pop(group)):
            self._free_surplus_copies(member)
        self.group_allocator.free(self._group_numbers.pop(group))

    def member_numbers(self) -> dict[int, int]:
        return {member: copies[0] for member, copies in self._copies.items()}

    def group_numbers(self) -> dict[int, int]:
        return dict(self._group_numbers)

    def allocate(self, count: int) -> list[int]:
        return [self._allocator.allocate() for _ in range(count)]

    def free(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._allocator.free(number)

    def _free_surplus_copies(self, member: int) -> None:
        copies = self._copies[member]
        max_weight = max((weights.get(member, 0) for weights in self._group_weights.values()), default=0)
        while len(copies) > max(max_weight, 1):
            self._allocator.free(copies.pop())
