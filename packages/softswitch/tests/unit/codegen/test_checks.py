"""Invalid control operations: interpreter and compiled pipeline raise the same errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError, TableFull
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked
from softswitch.limits import GROUP_MEMBERS_PER_MEMBER, MAX_REPLICAS
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryWrite,
    Pipeline,
    Replica,
    UseGroup,
    UseMember,
)
from switch_harness.constructs import compiled
from switch_harness.wording import mentions

PROFILES, REPLICATION = compiled("profiles"), compiled("replication")
CHOICES, PATHS = "Choose.choices", "Choose.paths"
MEMBER = ActionCall("Choose.balance", (1,))

Make = Callable[[ir.Program], Pipeline]
both = pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])


def insert(table: str, match: ir.Match, action: EntryAction, priority: int = 0) -> EntryWrite:
    return EntryWrite(Change.INSERT, table, (match,), action, priority)


# -- packet replication


@both
@pytest.mark.parametrize("group", [0, -1, 1 << 16, 70_000])
def test_multicast_groups_have_the_numbers_of_mcast_grp(make: Make, group: int) -> None:
    with pytest.raises(StateError, match=mentions("group", 1, 65535, group)):
        make(REPLICATION).replication.write_multicast_group(group, [Replica(1)])


@both
@pytest.mark.parametrize("session", [-1, 1 << 15])
def test_clone_sessions_have_the_numbers_that_a_clone_can_name(make: Make, session: int) -> None:
    with pytest.raises(StateError, match=mentions("session", 0, 32767, session)):
        make(REPLICATION).replication.write_clone_session(session, [Replica(1)])


@both
def test_groups_and_sessions_share_the_room_for_replicas(make: Make) -> None:
    pipeline = make(REPLICATION)
    pipeline.replication.write_multicast_group(1, [Replica(1, n) for n in range(MAX_REPLICAS - 2)])
    pipeline.replication.write_clone_session(1, [Replica(1), Replica(2)])
    full = f"they hold {MAX_REPLICAS} replicas together"
    with pytest.raises(TableFull, match=full):
        pipeline.replication.write_multicast_group(2, [Replica(1)])
    with pytest.raises(TableFull, match=full):
        pipeline.replication.write_clone_session(1, [Replica(1)] * 3)
    pipeline.replication.write_clone_session(1, [Replica(1)])
    pipeline.replication.write_multicast_group(2, [Replica(1)])
    with pytest.raises(TableFull, match=full):
        pipeline.replication.write_multicast_group(3, [Replica(1)])
    with pytest.raises(TableFull, match=full):
        make(REPLICATION).replication.write_multicast_group(1, [Replica(1)] * (MAX_REPLICAS + 1))


# -- action profiles


@both
def test_groups_of_a_profile_share_the_room_for_members(make: Make) -> None:
    pipeline = make(PROFILES)
    pipeline.profiles.write_member(PATHS, 1, MEMBER)
    maximum = GROUP_MEMBERS_PER_MEMBER * 16
    pipeline.profiles.write_group(PATHS, 1, [1] * (maximum - 1))
    pipeline.profiles.write_group(PATHS, 2, [1])
    full = f"action profile {PATHS} is full: its groups hold {maximum} members"
    with pytest.raises(TableFull, match=full):
        pipeline.profiles.write_group(PATHS, 2, [1, 1])
    with pytest.raises(TableFull, match=full):
        pipeline.profiles.write_group(PATHS, 3, [1])
    pipeline.profiles.write_group(PATHS, 1, [1] * (maximum - 2))
    pipeline.profiles.write_group(PATHS, 2, [1, 1])


@both
def test_a_profile_has_its_declared_size(make: Make) -> None:
    pipeline = make(PROFILES)
    for number in range(16):
        pipeline.profiles.write_member(PATHS, number, MEMBER)
        pipeline.profiles.write_group(PATHS, number, [number])
    for number in range(16):
        pipeline.profiles.write_member(PATHS, number, MEMBER)
        pipeline.profiles.write_group(PATHS, number, [number])
    with pytest.raises(TableFull, match=mentions("member 16", 16, PATHS)):
        pipeline.profiles.write_member(PATHS, 16, MEMBER)
    with pytest.raises(TableFull, match=mentions("group 16", 16, PATHS)):
        pipeline.profiles.write_group(PATHS, 16, [1])
    pipeline.profiles.write_group(PATHS, 3, None)
    pipeline.profiles.write_group(PATHS, 16, [1])
    pipeline.profiles.write_member(PATHS, 3, None)
    pipeline.profiles.write_member(PATHS, 16, MEMBER)


@both
def test_removing_missing_members_and_groups_is_accepted(make: Make) -> None:
    pipeline = make(PROFILES)
    pipeline.profiles.write_member(PATHS, 1, None)
    pipeline.profiles.write_group(PATHS, 1, None)
    pipeline.profiles.write_member(PATHS, 1, MEMBER)


@both
def test_a_member_has_an_action_of_its_profile(make: Make) -> None:
    pipeline = make(PROFILES)
    with pytest.raises(StateError, match=mentions("Choose.choose", PATHS)):
        pipeline.profiles.write_member(PATHS, 1, ActionCall("Choose.choose", (1,)))
    with pytest.raises(StateError, match=mentions("Choose.balance", 1, 2)):
        pipeline.profiles.write_member(PATHS, 1, ActionCall("Choose.balance", (1, 2)))


@both
def test_groups_and_entries_that_refer_to_missing_members_are_refused(make: Make) -> None:
    pipeline = make(PROFILES)
    pipeline.profiles.write_member(PATHS, 1, MEMBER)
    with pytest.raises(StateError, match=f"action profile {PATHS} has no member 2"):
        pipeline.profiles.write_group(PATHS, 1, [1, 2])
    for action, what in ((UseMember(2), "member 2"), (UseGroup(1), "group 1")):
        writes = [
            insert("Choose.selected", Masked(3, 0xFF), UseMember(1), 1),
            insert("Choose.selected", Masked(4, 0xFF), action, 2),
        ]
        with pytest.raises(StateError, match=f"action profile {PATHS} has no {what}"):
            pipeline.tables.write(writes)
    assert pipeline.tables.count("Choose.selected") == 0


# -- actions


@both
def test_an_entry_names_an_action_or_else_a_member_or_group_of_its_profile(make: Make) -> None:
    pipeline = make(PROFILES)
    plain = insert("Choose.plain", Masked(0, 0), UseMember(1))
    with pytest.raises(StateError, match=mentions("Choose.plain", "action")):
        pipeline.tables.write([plain])
    profiled = insert("Choose.profiled", 1, ActionCall("Choose.choose", (1,)))
    with pytest.raises(StateError, match=mentions("Choose.profiled", "member")):
        pipeline.tables.write([profiled])
    with pytest.raises(StateError, match=mentions("Choose.plain", "Choose.choose")):
        pipeline.tables.set_default("Choose.plain", ActionCall("Choose.choose", (1,)))
    with pytest.raises(StateError, match=mentions("Choose.share", 1, 0)):
        pipeline.tables.set_default("Choose.plain", ActionCall("Choose.share"))


@both
def test_a_constant_default_cannot_be_changed(make: Make) -> None:
    pipeline = make(compiled("lookups"))
    [table] = [table for table in pipeline.program.tables.values() if table.default_is_const and table.key][
        :1
    ]
    with pytest.raises(StateError, match=mentions("constant", table.name)):
        pipeline.tables.set_default(table.name, ActionCall("NoAction"))
    pipeline.tables.set_default(table.name, None)


# -- arrays and value sets


@both
@pytest.mark.parametrize("index", [-1, 8])
def test_an_index_outside_an_array_is_refused(make: Make, index: int) -> None:
    pipeline = make(compiled("resubmit_recirculate"))
    writes: list[Callable[[], None]] = [
        lambda: pipeline.cells.write_counter("Send.passes", index, CounterValue(1, 1)),
        lambda: pipeline.cells.write_register("Leave.lengths", index, 1),
    ]
    for write in writes:
        with pytest.raises(StateError, match=mentions(0, 7, index)):
            write()
    meters = make(compiled("meters"))
    name = meters.program.meters[0].name
    with pytest.raises(StateError, match=f"{name} has cells 0 to "):
        meters.cells.write_meter(name, meters.program.meters[0].size, None)


@both
def test_more_members_than_a_value_set_has_are_refused(make: Make) -> None:
    pipeline = make(compiled("value_sets"))
    [kinds] = [s for s in pipeline.program.value_sets if s.name == "P.kinds"]
    text = f"value set P.kinds is full: it holds {kinds.size} members, not {kinds.size + 1}"
    with pytest.raises(TableFull, match=text):
        pipeline.cells.write_value_set("P.kinds", [(n,) for n in range(kinds.size + 1)])
    pipeline.cells.write_value_set("P.kinds", [(n,) for n in range(kinds.size)])
