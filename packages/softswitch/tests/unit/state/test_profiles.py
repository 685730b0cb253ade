"""Members, groups, multicast groups and clone sessions: the words that the packet function follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch import ir
from softswitch.limits import MAX_REPLICAS
from softswitch.pipeline import ActionCall, Replica, UseGroup, UseMember
from softswitch.state.memory import Memory
from softswitch.state.profiles import Slots
from softswitch.state.replication import Replication
from switch_harness.state_programs import NARROW, PLAIN, WIDE, State, key_field, program, table

SIZE = 3
GROUP = 1 << 63
CALCULATION = ir.Calculation("hash", "crc16", ())
PROFILED = table("profiled", [key_field(8)], 4, profile=0, default=None)
PROGRAM = program(PROFILED, profiles=(ir.ActionProfile("profile", SIZE, 0),), calculations=(CALCULATION,))


def test_slots_are_given_in_order_and_given_again() -> None:
    slots = Slots(Memory(size_bytes=0))
    assert [slots.take(number) for number in (70, 50, 60, 50)] == [0, 1, 2, 1]
    assert slots.release(50) == 1
    assert slots.release(50) is None
    assert slots.release(70) == 0
    assert slots.by_number == {60: 2}
    assert [slots.take(number) for number in (1, 2, 3)] == [0, 1, 3]


@pytest.fixture
def state() -> State:
    return State(PROGRAM)


def member_words(state: State, slot: int, count: int) -> list[int]:
    layout = state.layout.profiles[0]
    return state.words(layout.members + slot * layout.stride, count)


def group_members(state: State, slot: int) -> list[int]:
    """Return the references in the run of a group."""
    layout = state.layout.profiles[0]
    run = state.word(layout.groups + slot)
    return state.words(layout.pool + (run >> 32), run & 0xFFFFFFFF)


def test_members_are_records_of_an_action_and_its_data(state: State) -> None:
    [profile] = state.profiles
    assert state.layout.profiles[0].stride == 5
    profile.write_member(9, ActionCall(WIDE, (5, 1 << 64)))
    profile.write_member(4, ActionCall(NARROW, (6,)))
    assert member_words(state, 0, 5) == [1, 5, 0, 1, 0]
    assert member_words(state, 1, 2) == [0, 6]
    assert (profile.reference(UseMember(9)), profile.reference(UseMember(4))) == (1, 2)
    profile.write_member(9, ActionCall(NARROW, (8,)))
    assert member_words(state, 0, 2) == [0, 8]
    assert profile.uses == {1: UseMember(9), 2: UseMember(4)}
    profile.write_member(9, None)
    profile.write_member(7, ActionCall(PLAIN))
    assert member_words(state, 0, 1) == [2]
    assert profile.uses == {1: UseMember(7), 2: UseMember(4)}


def test_groups_are_runs_of_references_to_members(state: State) -> None:
    [profile] = state.profiles
    for member in (11, 12):
        profile.write_member(member, ActionCall(PLAIN))
    profile.write_group(21, [12, 11, 12])
    profile.write_group(22, [])
    assert (group_members(state, 0), group_members(state, 1)) == ([2, 1, 2], [])
    assert (profile.reference(UseGroup(21)), profile.reference(UseGroup(22))) == (GROUP, GROUP | 1)
    assert profile.uses[GROUP | 1] == UseGroup(22)
    profile.write_group(21, None)
    assert group_members(state, 0) == []
    assert state.word(state.layout.profiles[0].groups) == 0
    assert GROUP not in profile.uses
    profile.write_group(23, [11])
    assert group_members(state, 0) == [1]


lengths = st.integers(0, 100)


@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.one_of(st.none(), lengths)), max_size=30))
def test_groups_keep_their_members_when_their_words_move(steps: list[tuple[int, int | None]]) -> None:
    state = State(PROGRAM)
    [profile] = state.profiles
    for member in range(SIZE):
        profile.write_member(member, ActionCall(PLAIN))
    model: dict[int, list[int]] = {}
    for turn, (group, length) in enumerate(steps):
        others = sum(len(members) for number, members in model.items() if number != group)
        if length is None:
            profile.write_group(group, None)
            model.pop(group, None)
        elif others + length <= 64 * SIZE:
            members = [(turn + n) % SIZE for n in range(length)]
            profile.write_group(group, members)
            model[group] = members
        for number, members in model.items():
            slot = profile.reference(UseGroup(number)) ^ GROUP
            assert group_members(state, slot) == [member + 1 for member in members]


# -- replication


def copies(state: State, at: int) -> list[tuple[int, int]]:
    """Return port and instance of each replica in the run at a word."""
    run = state.word(at)
    words = state.words(state.layout.replication.pool + (run >> 32), run & 0xFFFFFFFF)
    return [(word >> 32, word & 0xFFFFFFFF) for word in words]


def test_groups_and_sessions_are_runs_of_replicas(state: State) -> None:
    layout = state.layout.replication
    replication = Replication(layout, state.memory)
    replication.write_multicast_group(1, [Replica(3, 4), Replica(5)])
    replication.write_multicast_group(65535, [Replica(510, 65535)])
    replication.write_clone_session(0, [Replica(6, 7)], 60)
    replication.write_clone_session(32767, [Replica(8)], 0)
    assert copies(state, layout.multicast + 1) == [(3, 4), (5, 0)]
    assert copies(state, layout.multicast + 65535) == [(510, 65535)]
    assert copies(state, layout.sessions) == [(6, 7)]
    assert copies(state, layout.sessions + 2 * 32767) == [(8, 0)]
    assert (state.word(layout.sessions + 1), state.word(layout.sessions + 2 * 32767 + 1)) == (60, 0)
    replication.write_multicast_group(1, [])
    assert copies(state, layout.multicast + 1) == []
    replication.write_clone_session(0, [Replica(9)], 61)
    assert (copies(state, layout.sessions), state.word(layout.sessions + 1)) == ([(9, 0)], 61)


def test_groups_and_sessions_are_found_after_their_runs_have_moved(state: State) -> None:
    layout = state.layout.replication
    replication = Replication(layout, state.memory)
    half = MAX_REPLICAS // 2
    replication.write_multicast_group(1, [Replica(1, n % 65536) for n in range(half)])
    replication.write_clone_session(3, [Replica(3, 1), Replica(3, 2)], 99)
    replication.write_multicast_group(2, [Replica(2)])
    replication.write_multicast_group(1, [Replica(4, n % 65536) for n in range(half - 3)])
    replication.write_clone_session(3, [Replica(5, n) for n in range(half)], 98)
    assert copies(state, layout.multicast + 2) == [(2, 0)]
    assert copies(state, layout.multicast + 1) == [(4, n) for n in range(half - 3)]
    assert copies(state, layout.sessions + 6) == [(5, n) for n in range(half)]
    assert state.word(layout.sessions + 7) == 98
