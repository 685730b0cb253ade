"""The order in which a group's members are picked, as in BMv2 under PI, its P4Runtime server.

BMv2 numbers the members of a profile, each new one with the lowest free number. A hash h picks the member at
position h modulo size, in order of these numbers. PI creates as many copies of a member as its largest weight
in any group; with weight w, a group has the first w copies (PI: proto/frontend/src/action_prof_mgr.cpp).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

OnUndo = Callable[[Callable[[], None]], None]
"""Registers a function to be called if a change is undone (`p4runtime.batch`)."""


def never_undone(_step: Callable[[], None]) -> None:
    """Do nothing: the change cannot be undone."""


class NumberAllocator:
    """Numbers from 0 on; the lowest free one is next."""

    def __init__(self) -> None:
        self._next = 0
        self._free: set[int] = set()  # numbers below `_next`
        self._heap: list[int] = []  # all of `_free`, and numbers that are no longer free

    def allocate(self, on_undo: OnUndo = never_undone) -> int:
        while self._heap:
            number = heapq.heappop(self._heap)
            if number in self._free:
                self._free.remove(number)
                on_undo(partial(self.free, number))
                return number
        number = self._next
        self._next += 1
        on_undo(self._take_back_new)
        return number

    def free(self, number: int, on_undo: OnUndo = never_undone) -> None:
        self._free.add(number)
        heapq.heappush(self._heap, number)
        on_undo(lambda: self._free.remove(number))

    def _take_back_new(self) -> None:
        self._next -= 1


class MemberNumbers:
    """BMv2's numbers of the members of one profile, which determine the order of each group.

    Arguments are the controller's IDs of members and groups. Members of one-shots have no IDs, only numbers
    (`allocate`). `group_allocator` allocates the numbers of all groups. A write takes as long for many groups
    as for few.
    """

    def __init__(self) -> None:
        self.group_allocator = NumberAllocator()
        self._allocator = NumberAllocator()
        self._copies: dict[int, list[int]] = {}  # numbers of the copies, by member
        self._member_by_number: dict[int, int] = {}  # by the number of the first copy
        self._group_weights: dict[int, dict[int, int]] = {}  # weights by group and member
        self._weight_counts: dict[int, Counter[int]] = {}  # by member: number of groups with each weight
        self._group_numbers: dict[int, int] = {}
        self._group_by_number: dict[int, int] = {}

    def add_member(self, member: int, on_undo: OnUndo = never_undone) -> None:
        number = self._allocator.allocate(on_undo)
        self._copies[member], self._member_by_number[number] = [number], member
        self._weight_counts[member] = Counter()
        on_undo(lambda: self._forget_member(member))

    def remove_member(self, member: int, on_undo: OnUndo = never_undone) -> None:
        copies, weight_counts = self._copies.pop(member), self._weight_counts.pop(member)
        del self._member_by_number[copies[0]]
        on_undo(lambda: self._bring_back_member(member, copies, weight_counts))
        self.free(copies, on_undo)

    def set_group(self, group: int, weights: Mapping[int, int], on_undo: OnUndo = never_undone) -> list[int]:
        """Set the members of a group and their weights; return them in the order in which they are picked."""
        old_weights = self._group_weights.get(group, {})
        if group not in self._group_weights:
            number = self.group_allocator.allocate(on_undo)
            self._group_numbers[group], self._group_by_number[number] = number, group
            on_undo(lambda: self._forget_group(group))
        for member in sorted(weights):
            self._save_copies(member, on_undo)
            copies = self._copies[member]
            copies += [self._allocator.allocate(on_undo) for _ in range(weights[member] - len(copies))]
        self._replace_weights(group, weights, on_undo)
        for member in sorted(old_weights.keys() | weights.keys()):
            self._free_surplus_copies(member, on_undo)
        numbered_members = [
            (number, member) for member, weight in weights.items() for number in self._copies[member][:weight]
        ]
        return [member for _, member in sorted(numbered_members)]

    def remove_group(self, group: int, on_undo: OnUndo = never_undone) -> None:
        old_weights = self._replace_weights(group, {}, on_undo)
        number = self._group_numbers.pop(group)
        del self._group_by_number[number]
        del self._group_weights[group]
        on_undo(lambda: self._bring_back_group(group, number))
        for member in sorted(old_weights):
            self._free_surplus_copies(member, on_undo)
        self.group_allocator.free(number, on_undo)

    def member_number(self, member: int) -> int:
        return self._copies[member][0]

    def find_member(self, number: int) -> int | None:
        return self._member_by_number.get(number)

    def group_number(self, group: int) -> int | None:
        """Return the number of a group; None for a one-shot's."""
        return self._group_numbers.get(group)

    def find_group(self, number: int) -> int | None:
        return self._group_by_number.get(number)

    def allocate(self, count: int, on_undo: OnUndo = never_undone) -> list[int]:
        return [self._allocator.allocate(on_undo) for _ in range(count)]

    def free(self, numbers: Iterable[int], on_undo: OnUndo = never_undone) -> None:
        for number in numbers:
            self._allocator.free(number, on_undo)

    def _free_surplus_copies(self, member: int, on_undo: OnUndo) -> None:
        self._save_copies(member, on_undo)
        copies = self._copies[member]
        # The groups have room for few members, and so for few different weights of one.
        max_weight = max(self._weight_counts[member], default=0)
        while len(copies) > max(max_weight, 1):
            self._allocator.free(copies.pop(), on_undo)

    # -- changes and how they are undone

    def _replace_weights(self, group: int, weights: Mapping[int, int], on_undo: OnUndo) -> dict[int, int]:
        """Set the weights of a group; return the old ones."""
        old_weights, new_weights = self._group_weights.get(group, {}), dict(weights)
        self._count_weights(old_weights, new_weights)
        self._group_weights[group] = new_weights

        def undo() -> None:
            self._count_weights(new_weights, old_weights)
            self._group_weights[group] = old_weights

        on_undo(undo)
        return old_weights

    def _count_weights(self, old: Mapping[int, int], new: Mapping[int, int]) -> None:
        for member, weight in old.items():
            counts = self._weight_counts[member]
            counts[weight] -= 1
            if not counts[weight]:
                del counts[weight]
        for member, weight in new.items():
            self._weight_counts[member][weight] += 1

    def _save_copies(self, member: int, on_undo: OnUndo) -> None:
        copies = list(self._copies[member])
        on_undo(lambda: self._copies.update({member: copies}))

    def _forget_member(self, member: int) -> None:
        del self._member_by_number[self._copies[member][0]]
        del self._copies[member], self._weight_counts[member]

    def _bring_back_member(self, member: int, copies: list[int], weight_counts: Counter[int]) -> None:
        self._copies[member], self._weight_counts[member] = copies, weight_counts
        self._member_by_number[copies[0]] = member

    def _forget_group(self, group: int) -> None:
        del self._group_by_number[self._group_numbers[group]]
        del self._group_numbers[group], self._group_weights[group]

    def _bring_back_group(self, group: int, number: int) -> None:
        self._group_numbers[group], self._group_weights[group] = number, {}
        self._group_by_number[number] = group
