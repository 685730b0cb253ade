"""The interpreter's tables: action profiles, selectors, defaults, what is read back, idle timeout."""

from __future__ import annotations

import pytest

from softswitch.errors import EntryExists, EntryMissing, StateError, TableFull
from softswitch.hashing import ALGORITHMS
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, RangeMatch
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryKey,
    EntryWrite,
    StoredEntry,
    UseGroup,
    UseMember,
)
from switch_harness.constructs import compiled, fill_profiles
from switch_harness.wording import mentions

PROGRAM = compiled("profiles")
HIT, MISS, BALANCED, LEFT_OUT, OTHER, FIRST_MISSED = 2, 4, 8, 16, 32, 64
CHOICES, PATHS = "Choose.choices", "Choose.paths"
ANYTHING = Masked(0, 0)


@pytest.fixture
def pipeline() -> InterpretedPipeline:
    return InterpretedPipeline(PROGRAM)


@pytest.fixture
def filled(pipeline: InterpretedPipeline) -> InterpretedPipeline:
    fill_profiles(pipeline)
    return pipeline


def send(
    pipeline: InterpretedPipeline, profiled: int = 0, selected: int = 0, flow: int = 0, now: int = 0
) -> tuple[int, int, int, int]:
    """Return (chosen, balanced, shared, path) for a packet."""
    frame = bytes([profiled, selected]) + flow.to_bytes(2, "big") + bytes(7)
    [output] = pipeline.process(1, frame, now, now)
    numbers = [int.from_bytes(output.frame[at : at + 2], "big") for at in (4, 6, 8)]
    return numbers[0], numbers[1], numbers[2], output.frame[10]


def test_entries_execute_the_action_of_their_member(filled: InterpretedPipeline) -> None:
    assert send(filled, profiled=1) == (0x1111, 0, 0x1112, HIT | FIRST_MISSED)
    assert send(filled, profiled=2) == (0xFFFF, 0, 0, HIT | FIRST_MISSED)
    assert send(filled, profiled=3) == (0, 0, 1, MISS | FIRST_MISSED)
    assert send(filled, selected=4) == (0xFFFF, 0, 1, MISS | LEFT_OUT | 1)
    filled.profiles.write_member(CHOICES, 1, ActionCall("Choose.choose", (5,)))
    assert send(filled, profiled=1)[0] == 5


def test_a_switch_takes_its_default_where_another_action_has_run(filled: InterpretedPipeline) -> None:
    """On a miss no action runs: a table with a profile has no default action in BMv2."""
    assert send(filled, selected=1)[3] == MISS | BALANCED | FIRST_MISSED
    filled.profiles.write_member(PATHS, 7, ActionCall("NoAction"))
    filled.tables.set_default("Choose.selected", UseMember(7))
    assert send(filled)[3] == MISS | OTHER | FIRST_MISSED


def test_a_hash_picks_the_member_of_a_group(filled: InterpretedPipeline) -> None:
    for flow in range(0, 0x10000, 0x123):
        picked = ALGORITHMS["crc16"](flow.to_bytes(2, "big")) % 3
        assert send(filled, selected=1, flow=flow)[1] == 1 + picked
    filled.profiles.write_group(PATHS, 1, [5])
    assert send(filled, selected=1, flow=7)[1] == 5


def test_an_empty_group_does_nothing(filled: InterpretedPipeline) -> None:
    filled.profiles.write_group(PATHS, 1, [])
    assert send(filled, selected=1) == (0, 0, 1, MISS | FIRST_MISSED)
    key = EntryKey("Choose.selected", (Masked(1, 0xFF),), 9)
    assert filled.tables.counter(key) == (1, 11)


def test_a_default_may_be_a_member_or_group(filled: InterpretedPipeline) -> None:
    filled.tables.set_default("Choose.selected", UseGroup(2))
    assert send(filled, flow=1)[1] in (4, 5, 0)
    filled.tables.set_default("Choose.selected", UseMember(6))
    assert send(filled)[3] == MISS | LEFT_OUT | FIRST_MISSED | 1
    filled.tables.set_default("Choose.selected", None)
    assert send(filled)[3] == MISS | FIRST_MISSED


def test_actions_and_members_are_not_mixed_up(pipeline: InterpretedPipeline) -> None:
    with pytest.raises(StateError, match=mentions("Choose.plain", "action")):
        pipeline.tables.set_default("Choose.plain", UseMember(1))
    with pytest.raises(StateError, match=mentions("Choose.first", "member")):
        pipeline.tables.set_default("Choose.first", ActionCall("Choose.refuse"))
    with pytest.raises(StateError, match=mentions("Choose.share", "action")):
        pipeline.profiles.write_member(CHOICES, 1, ActionCall("Choose.share", (1,)))


def test_a_profile_is_full_with_its_declared_members_and_groups(pipeline: InterpretedPipeline) -> None:
    for member in range(8):
        pipeline.profiles.write_member(CHOICES, member, ActionCall("Choose.refuse"))
    with pytest.raises(TableFull, match=mentions("Choose.choices", "member 8", 8)):
        pipeline.profiles.write_member(CHOICES, 8, ActionCall("Choose.refuse"))
    pipeline.profiles.write_member(CHOICES, 7, ActionCall("Choose.choose", (1,)))
    pipeline.profiles.write_member(CHOICES, 7, None)
    pipeline.profiles.write_member(CHOICES, 8, ActionCall("Choose.refuse"))
    for group in range(16):
        pipeline.profiles.write_group(PATHS, group, [])
    with pytest.raises(TableFull, match=mentions("group 16", "group")):
        pipeline.profiles.write_group(PATHS, 16, [])
    pipeline.profiles.write_group(PATHS, 3, None)
    pipeline.profiles.write_group(PATHS, 16, [])


def test_written_entries_are_read_back_equal(filled: InterpretedPipeline) -> None:
    send(filled, selected=1, now=5)
    key = EntryKey("Choose.selected", (Masked(1, 0xFF),), 9)
    [stored, missing] = filled.tables.find([key, key._replace(priority=8)])
    assert stored == StoredEntry(key.key, UseGroup(1), 9, CounterValue(1, 11), 0)
    assert missing is None
    reading = filled.tables.read("Choose.plain")
    filled.tables.write([EntryWrite(Change.DELETE, "Choose.plain", (ANYTHING,))])
    assert [entry.action for entry in reading] == [
        ActionCall("Choose.share", (3,)),
        ActionCall("Choose.share", (1,)),
    ]
    assert filled.tables.count("Choose.plain") == 1


def test_only_bits_under_the_mask_of_a_key_count() -> None:
    """Bits outside a mask do not count (BMv2 match_units.cpp, build_entry_from_match_key)."""
    pipeline = InterpretedPipeline(compiled("lookups"))
    add = ActionCall("Find.add", (7,))

    def write(change: Change, low: int) -> Exception | None:
        key = (low, Masked(0, 0), RangeMatch(0, 0xFFFF))  # the first field is kind & 0x3c
        return pipeline.tables.write([EntryWrite(change, "Find.masks", key, add, 5)])[0]

    assert write(Change.INSERT, 0xFF) is None
    assert isinstance(write(Change.INSERT, 0x3D), EntryExists)
    assert write(Change.MODIFY, 0x3C) is None
    assert [entry.key[0] for entry in pipeline.tables.read("Find.masks")] == [0x3C]
    results = [
        pipeline.process(1, bytes([kind, 0x55]) + bytes(8), 0, 0)[0].frame[8:10] for kind in (0x3C, 0x34)
    ]
    assert int.from_bytes(results[0], "big") == int.from_bytes(results[1], "big") + 7


def test_the_last_hit_is_recorded_where_entries_age(filled: InterpretedPipeline) -> None:
    keys = [
        EntryKey("Choose.profiled", (1,)),
        EntryKey("Choose.profiled", (2,)),
        EntryKey("Choose.profiled", (3,)),
        EntryKey("Choose.plain", (ANYTHING,)),
        EntryKey("Choose.first", (2,)),
    ]
    send(filled, profiled=1, selected=2, now=40)
    send(filled, profiled=1, now=70)
    assert filled.tables.last_hits(keys) == [70, 0, -1, 70, 0]


def test_a_counter_or_meter_of_a_missing_entry_is_refused(filled: InterpretedPipeline) -> None:
    key = EntryKey("Choose.selected", (Masked(4, 4),), 4)
    filled.tables.set_counter(key, CounterValue(10, 20))
    send(filled, selected=4)
    assert filled.tables.counter(key) == (11, 31)
    for operation in (
        lambda: filled.tables.counter(key._replace(priority=3)),
        lambda: filled.tables.set_counter(key._replace(priority=3), CounterValue(0, 0)),
        lambda: filled.tables.set_meter(key._replace(priority=3), None),
    ):
        with pytest.raises(EntryMissing):
            operation()
