"""The order in which members of groups are picked, and copies of packets made: BMv2's under PI."""

from bisect import insort
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from softswitch.p4runtime.entities.replication import order_replicas
from softswitch.p4runtime.entities.selection import MemberNumbers, NumberAllocator
from softswitch.pipeline import Replica


@given(st.lists(st.one_of(st.none(), st.integers(0, 20))))
def test_a_new_member_takes_the_lowest_free_number(actions: list[int | None]) -> None:
    free, used = NumberAllocator(), set[int]()
    for action in actions:
        if action is None:
            number = free.allocate()
            assert number == min(set(range(len(used) + 1)) - used)
            used.add(number)
        elif action in used:
            used.remove(action)
            free.free(action)


def test_members_are_picked_by_number_not_by_id() -> None:
    numbers = MemberNumbers()
    for member in (30, 10, 20):
        numbers.add_member(member)
    assert numbers.set_group(1, {10: 1, 20: 1, 30: 1}) == [30, 10, 20]
    assert numbers.set_group(1, {20: 1, 30: 1}) == [30, 20]
    numbers.remove_member(10)
    numbers.add_member(40)  # in its place
    assert numbers.set_group(1, {20: 1, 30: 1, 40: 1}) == [30, 40, 20]


def test_weights_are_copies_with_own_numbers() -> None:
    numbers = MemberNumbers()
    numbers.add_member(1)  # 0
    numbers.add_member(2)  # 1
    assert numbers.set_group(1, {1: 3, 2: 1}) == [1, 2, 1, 1]  # 0, 1, and copies 2 and 3
    numbers.add_member(3)  # 4
    assert numbers.set_group(2, {1: 2, 3: 1}) == [1, 1, 3]
    assert numbers.set_group(1, {2: 2}) == [2, 2]  # copy 5; copy 3 of member 1 is gone, copy 2 is group 2's
    assert numbers.set_group(2, {1: 3, 3: 1}) == [1, 1, 1, 3]  # copy 3 again
    numbers.remove_group(1)
    numbers.add_member(4)  # 5, which was member 2's copy
    assert numbers.set_group(3, {2: 2, 4: 1}) == [2, 4, 2]


class Pi(RuleBasedStateMachine):
    """PI's bookkeeping as action_prof_mgr.cpp has it, over BMv2's lowest free handles and sorted sets."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = MemberNumbers()
        self.free = list(range(1000))
        self.handles: dict[int, list[int]] = {}
        self.weight_counts: dict[int, dict[int, int]] = {}
        self.groups: dict[int, dict[int, int]] = {}
        self.in_bmv2: dict[int, set[int]] = {}
        self.order: dict[int, list[int]] = {}

    @rule(member=st.integers(1, 5))
    def insert_or_delete(self, member: int) -> None:
        if member not in self.handles:
            self.handles[member], self.weight_counts[member] = [self.free.pop(0)], {1: 1}
            self.numbers.add_member(member)
        elif not any(member in group for group in self.groups.values()):
            for handle in self.handles.pop(member):
                insort(self.free, handle)
            del self.weight_counts[member]
            self.numbers.remove_member(member)

    @rule(group=st.integers(1, 3), weights=st.dictionaries(st.integers(1, 5), st.integers(1, 4)))
    def set_group(self, group: int, weights: dict[int, int]) -> None:
        weights = {member: weight for member, weight in weights.items() if member in self.handles}
        current = self.groups.get(group, {})
        placed = self.in_bmv2.setdefault(group, set())
        touched = sorted(current.keys() | weights.keys())
        for member in touched:
            new, old, handles = weights.get(member, 0), current.get(member, 0), self.handles[member]
            while len(handles) < new:
                handles.append(self.free.pop(0))
            if old:
                self.weight_counts[member][old] -= 1
            placed.difference_update(handles[new:old])
            placed.update(handles[old:new])
            if new:
                self.weight_counts[member][new] = self.weight_counts[member].get(new, 0) + 1
        for member in touched:
            self.purge(member)
        self.groups[group] = weights
        self.order[group] = self.numbers.set_group(group, weights)

    @rule(group=st.integers(1, 3))
    def delete_group(self, group: int) -> None:
        if group in self.groups:
            for member, weight in sorted(self.groups.pop(group).items()):
                self.weight_counts[member][weight] -= 1
                self.purge(member)
            del self.in_bmv2[group], self.order[group]
            self.numbers.remove_group(group)

    def purge(self, member: int) -> None:
        maximum = max(weight for weight, count in self.weight_counts[member].items() if count)
        while len(self.handles[member]) > maximum:
            insort(self.free, self.handles[member].pop())

    @invariant()
    def groups_are_picked_from_in_the_order_of_handles(self) -> None:
        owner = {handle: member for member, handles in self.handles.items() for handle in handles}
        for group, placed in self.in_bmv2.items():
            assert self.order[group] == [owner[handle] for handle in sorted(placed)]

    @invariant()
    def numbers_lead_back(self) -> None:
        for number in range(30):
            member = next((m for m, handles in self.handles.items() if handles[0] == number), None)
            assert self.numbers.find_member(number) == member
            assert member is None or self.numbers.member_number(member) == number
        found = {group: self.numbers.group_number(group) for group in range(1, 4)}
        assert {group for group, number in found.items() if number is not None} == self.groups.keys()
        for number in range(10):
            group = next((group for group, handle in found.items() if handle == number), None)
            assert self.numbers.find_group(number) == group


TestPi = Pi.TestCase


def test_numbers_lead_back_after_an_undone_batch() -> None:
    numbers, undo_steps = MemberNumbers(), list[Callable[[], None]]()
    for member in (7, 8):
        numbers.add_member(member)
    numbers.set_group(5, {7: 2})
    numbers.remove_group(5, undo_steps.append)
    numbers.remove_member(7, undo_steps.append)
    numbers.add_member(9, undo_steps.append)
    numbers.set_group(6, {9: 1}, undo_steps.append)
    assert (numbers.find_member(0), numbers.find_group(0)) == (9, 6)
    while undo_steps:
        undo_steps.pop()()
    assert [numbers.find_member(number) for number in range(3)] == [7, 8, None]
    assert (numbers.find_group(0), numbers.group_number(6)) == (5, None)


def test_copies_are_made_by_instance_and_then_by_port() -> None:
    replicas = [Replica(3, 2), Replica(1, 2), Replica(7, 0)]
    assert order_replicas(replicas) == [Replica(7, 0), Replica(1, 2), Replica(3, 2)]


@pytest.mark.parametrize(
    ("instances", "order"),
    [
        ([1, 2, 3], [3, 2, 1]),
        ([5, 18, 4, 31], [4, 31, 18, 5]),
        (list(range(14)), [13, *range(13)]),
        ([7, 20, *range(100, 113)], [112, 111, 7, *range(100, 107), 20, *range(107, 111)]),
    ],
)
def test_new_instances_come_in_the_order_of_a_hash_table(instances: list[int], order: list[int]) -> None:
    """As libstdc++ iterates over an `unordered_map` into which they came in the order given."""
    assert [replica.instance for replica in order_replicas(Replica(1, i) for i in instances)] == order


def test_instances_that_stay_keep_their_place_in_a_modified_group() -> None:
    before = order_replicas([Replica(1, 5), Replica(1, 6)])
    after = order_replicas([Replica(1, 6), Replica(2, 5), Replica(1, 1), Replica(1, 9)], before)
    assert after == [Replica(1, 6), Replica(2, 5), Replica(1, 9), Replica(1, 1)]


class UnorderedMap:
    """The list of keys that a `std::unordered_map` of libstdc++ is; keys of a bucket stand together."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.sizes = iter([13, 29, 59, 127])
        self.buckets = 0

    def insert(self, key: int) -> None:
        if key in self.keys:
            return
        if len(self.keys) == self.buckets:
            self.buckets, old = next(self.sizes), self.keys
            self.keys = []
            for each in old:
                self._link(each)
        self._link(key)

    def _link(self, key: int) -> None:
        same = [bucket for bucket, each in enumerate(self.keys) if (each - key) % self.buckets == 0]
        self.keys.insert(same[0] if same else 0, key)


INSTANCES = st.one_of(st.integers(0, 4), st.integers(0, 65535))
REPLICAS = st.lists(st.builds(Replica, st.integers(0, 3), INSTANCES), max_size=70, unique=True)


@given(st.lists(REPLICAS, max_size=4))
def test_copies_have_the_order_of_bmv2s_nodes(writes: list[list[Replica]]) -> None:
    nodes: list[int] = []  # instances in the order in which they were attached
    order: list[Replica] = []
    for replicas in writes:
        wanted = UnorderedMap()
        for replica in replicas:
            wanted.insert(replica.instance)
        nodes += [instance for instance in wanted.keys if instance not in nodes]
        nodes = [instance for instance in nodes if instance in wanted.keys]
        order = order_replicas(replicas, order)
        assert order == [
            replica for node in nodes for replica in sorted(replicas) if replica.instance == node
        ]
