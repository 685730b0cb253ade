"""What the control plane reads and writes of entries and defaults, beside writing the entries."""

from __future__ import annotations

import pytest

from softswitch import ir
from softswitch.errors import EntryMissing, StateError
from softswitch.ir import Masked, MatchKind
from softswitch.pipeline import ActionCall, Change, CounterValue, EntryKey, EntryWrite, MeterConfig, UseMember
from switch_harness.state_programs import NARROW, PLAIN, WIDE, State, key_field, program, table
from switch_harness.wording import mentions

NO_ACTION = (1 << 32) - 1
METER = ir.DirectMeter(False, ir.FieldRef(0, 0))
FULL = table("full", [key_field(8)], 4, has_counter=True, meter=METER, has_idle_timeout=True)
OWN = table(
    "own",
    [key_field(8, MatchKind.TERNARY)],
    4,
    const_entries=(ir.ConstEntry((Masked(1, 1),), 6, ir.Invocation(0, (9,))),),
    default=ir.Invocation(1, (1, 1 << 129)),
)
CONSTANT = table("constant", [key_field(8)], 4, default_is_const=True)
WITHOUT = table("without", [key_field(8)], 4, default=None)
PROFILED = table("profiled", [key_field(8)], 4, profile=0, default=None)
PROGRAM = program(FULL, OWN, CONSTANT, WITHOUT, PROFILED, profiles=(ir.ActionProfile("profile", 4, None),))
KEYS = [EntryKey("full", (n,)) for n in range(4)]


@pytest.fixture
def state() -> State:
    state = State(PROGRAM)
    state.profiles[0].write_member(5, ActionCall(PLAIN))
    writes = [EntryWrite(Change.INSERT, "full", key.key, ActionCall(NARROW, (1,))) for key in KEYS[:3]]
    assert state.entries.write(writes) == [None] * 3
    return state


def record(state: State, number: int) -> int:
    """Return the word offset of a record of `full`, counted from 0."""
    layout = state.layout.tables["full"]
    return layout.records + number * layout.stride


def test_the_words_of_a_record_are_consecutive(state: State) -> None:
    layout = state.layout.tables["full"]
    at = [layout.action, layout.counter, layout.meter, layout.last_hit, layout.parameters, layout.stride]
    assert at == [1, 2, 4, 13, 14, 18]
    assert state.words(record(state, 1), 3) == [1, 0, 0]
    assert state.word(record(state, 1) + layout.parameters) == 1


def test_the_programs_constant_entries_are_installed(state: State) -> None:
    [entry] = state.entries.read("own")
    assert (entry.key, entry.priority, entry.action) == ((Masked(1, 1),), 6, ActionCall(NARROW, (9,)))
    assert state.entries.count("own") == 1


# -- defaults


def default_words(state: State, name: str, count: int) -> list[int]:
    layout = state.layout.tables[name]
    parameters = state.words(layout.default + layout.parameters, count)
    return [state.word(layout.default + layout.action), *parameters]


def test_defaults_are_records_without_key(state: State) -> None:
    assert default_words(state, "full", 0) == [2]
    assert default_words(state, "own", 4) == [1, 1, 0, 0, 2]
    assert default_words(state, "without", 0) == [NO_ACTION]
    assert default_words(state, "profiled", 0) == [0]


def test_defaults_are_replaced_and_restored(state: State) -> None:
    state.entries.set_default("own", ActionCall(NARROW, (77,)))
    assert default_words(state, "own", 1) == [0, 77]
    state.entries.set_default("own", None)
    assert default_words(state, "own", 4) == [1, 1, 0, 0, 2]
    state.entries.set_default("without", ActionCall(WIDE, (3, 1 << 65)))
    assert default_words(state, "without", 4) == [1, 3, 0, 2, 0]
    state.entries.set_default("without", None)
    assert default_words(state, "without", 0) == [NO_ACTION]
    state.entries.set_default("profiled", UseMember(5))
    assert default_words(state, "profiled", 0) == [1]
    state.entries.set_default("profiled", None)
    assert default_words(state, "profiled", 0) == [0]
    with pytest.raises(StateError, match=mentions("constant", "default")):
        state.entries.set_default("constant", ActionCall(PLAIN))
    state.entries.set_default("constant", None)


# -- what packets leave


def test_counters_of_entries_are_stored_in_their_records(state: State) -> None:
    state.entries.set_counter(KEYS[1], CounterValue(3, 300))
    assert [state.entries.counter(key) for key in KEYS[:3]] == [(0, 0), (3, 300), (0, 0)]
    assert state.words(record(state, 1) + 2, 2) == [3, 300]
    for call in (state.entries.counter, lambda key: state.entries.set_counter(key, CounterValue(1, 1))):
        with pytest.raises(EntryMissing, match=mentions(3, "table")):
            call(KEYS[3])


def test_meters_of_entries_are_stored_in_their_records(state: State) -> None:
    state.entries.set_meter(KEYS[2], MeterConfig(1_000_000, 11, 2_000_000, 22))
    one, two = 0x3FF0000000000000, 0x4000000000000000
    assert state.words(record(state, 2) + 4, 9) == [1, two, 22, 22, 0, one, 11, 11, 0]
    assert state.words(record(state, 1) + 4, 9) == [0] * 9
    state.entries.set_meter(KEYS[2], None)
    assert state.words(record(state, 2) + 4, 9) == [0] * 9
    with pytest.raises(EntryMissing):
        state.entries.set_meter(KEYS[3], None)


def test_last_hits_are_read_for_several_keys(state: State) -> None:
    for number in range(3):
        state.memory.words[record(state, number) + 13] = 50 + number
    assert state.entries.last_hits([KEYS[2], KEYS[3], KEYS[0]]) == [52, -1, 50]
    assert state.entries.last_hits([]) == []
    assert [entry.last_hit for entry in state.entries.read("full")] == [50, 51, 52]


# -- reading back


def test_entries_are_read_in_the_order_of_their_records(state: State) -> None:
    assert [entry.key for entry in state.entries.read("full")] == [(0,), (1,), (2,)]
    state.entries.write([EntryWrite(Change.DELETE, "full", (0,))])
    state.entries.write([EntryWrite(Change.INSERT, "full", (9,), ActionCall(WIDE, (1, 1 << 128)))])
    read = list(state.entries.read("full"))
    assert [entry.key for entry in read] == [(9,), (1,), (2,)]
    assert read[0].action == ActionCall(WIDE, (1, 1 << 128))
    assert list(state.entries.read("constant")) == []


def test_writes_during_an_iteration_do_not_change_the_iterated_entries(state: State) -> None:
    state.entries.set_counter(KEYS[1], CounterValue(1, 2))
    reader = state.entries.read("full")
    next(reader)
    state.entries.set_counter(KEYS[1], CounterValue(5, 6))
    state.entries.write([EntryWrite(Change.DELETE, "full", (2,))])
    assert [(entry.key, entry.counter) for entry in reader] == [((1,), (1, 2)), ((2,), (0, 0))]
    assert state.entries.count("full") == 2


def test_entries_are_found_by_key_and_priority(state: State) -> None:
    own = EntryKey("own", (Masked(1, 1),), 6)
    found = state.entries.find([own, own._replace(priority=5), KEYS[3], KEYS[0]])
    assert [entry and entry.key for entry in found] == [own.key, None, None, (0,)]
    assert state.entries.find([]) == []
    assert [entry and entry.counter for entry in found if entry] == [(0, 0), (0, 0)]


def test_entries_of_a_table_with_a_profile_name_their_member(state: State) -> None:
    assert state.entries.write([EntryWrite(Change.INSERT, "profiled", (1,), UseMember(5))]) == [None]
    [entry] = state.entries.read("profiled")
    assert entry.action == UseMember(5)
    assert state.entries.find([EntryKey("profiled", (1,))]) == [entry]
