"""The compiled pipeline's tables against a dict: insert, modify, delete, full, counters, defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from softswitch.compiled import CompiledPipeline
from softswitch.errors import EntryExists, EntryMissing, StateError, TableFull
from softswitch.ir import Masked
from softswitch.jit import MachineCode
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    Replica,
    UseGroup,
    UseMember,
)
from softswitch.state.memory import Memory
from switch_harness.constructs import compiled, insert
from switch_harness.effort import examples
from switch_harness.wording import mentions, says_in_one_line

FORWARD = "ControlIngress.forward"
FORWARD_TO = "ControlIngress.forward_to"
PAIRS = "ControlIngress.pairs"
SEEN = "Entities.seen"
SEEN_SIZE = 64
SET_TAG = "ControlIngress.set_tag"
CLONED = bytes([1, 255, 0, 0, 0, 1]) + bytes(54)
"""For tests/programs/replication.p4: cloned to session 1, and dropped itself."""


@cache
def machine_code(name: str) -> MachineCode:
    return MachineCode(compiled(name))


def pipeline_of(name: str) -> CompiledPipeline:
    return CompiledPipeline(compiled(name), machine_code(name))


def forward(change: Change, address: int, port: int = 0) -> EntryWrite:
    action = None if change is Change.DELETE else ActionCall(FORWARD_TO, (port,))
    return EntryWrite(change, FORWARD, (address,), action)


class Tables(RuleBasedStateMachine):
    """Few keys that collide in a small table; every look-up goes through a packet."""

    @initialize()
    def start(self) -> None:
        self.pipeline = pipeline_of("control")
        self.model: dict[int, int] = {}
        self.counts: dict[int, int] = {}

    @rule(address=st.integers(1, 40), port=st.integers(1, 5))
    def insert(self, address: int, port: int) -> None:
        [error] = self.pipeline.tables.write([forward(Change.INSERT, address, port)])
        assert isinstance(error, EntryExists) == (address in self.model)
        if error is None:
            self.model[address], self.counts[address] = port, 0

    @rule(address=st.integers(1, 40), port=st.integers(1, 5))
    def modify(self, address: int, port: int) -> None:
        [error] = self.pipeline.tables.write([forward(Change.MODIFY, address, port)])
        assert isinstance(error, EntryMissing) == (address not in self.model)
        if error is None:
            self.model[address] = port

    @rule(addresses=st.lists(st.integers(1, 40), max_size=20))
    def delete(self, addresses: list[int]) -> None:
        errors = self.pipeline.tables.write([forward(Change.DELETE, address) for address in addresses])
        for address, error in zip(addresses, errors, strict=True):
            assert (error is None) == (self.model.pop(address, None) is not None)

    @rule(address=st.integers(1, 40))
    def look_up(self, address: int) -> None:
        frame = address.to_bytes(6, "big") + bytes(54)
        outputs = self.pipeline.process(1, frame, 0, 0)
        assert [out.port for out in outputs] == ([self.model[address]] if address in self.model else [])
        if address in self.model:
            self.counts[address] += 1

    @invariant()
    def counters_agree(self) -> None:
        for address in getattr(self, "model", {}):
            count = self.counts[address]
            assert self.pipeline.tables.counter(EntryKey(FORWARD, (address,))) == CounterValue(
                count, 60 * count
            )


Tables.TestCase.settings = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
TestTables = Tables.TestCase


def seen(change: Change, address: int) -> EntryWrite:
    action = None if change is Change.DELETE else ActionCall("Entities.learn")
    return EntryWrite(change, SEEN, (address,), action)


def test_a_table_holds_its_declared_size_and_no_more() -> None:
    pipeline = pipeline_of("entities")
    errors = pipeline.tables.write([seen(Change.INSERT, number) for number in range(SEEN_SIZE + 1)])
    assert errors[:-1] == [None] * SEEN_SIZE
    assert isinstance(errors[-1], TableFull)
    assert says_in_one_line(str(errors[-1]), "full", SEEN, SEEN_SIZE)
    assert pipeline.tables.write([seen(Change.DELETE, 5), seen(Change.INSERT, 999)]) == [None, None]


def test_records_of_deleted_entries_are_reused() -> None:
    pipeline = pipeline_of("entities")
    for turn in range(10):
        numbers = range(turn * SEEN_SIZE, (turn + 1) * SEEN_SIZE)
        assert not any(pipeline.tables.write([seen(Change.INSERT, number) for number in numbers]))
        assert not any(pipeline.tables.write([seen(Change.DELETE, number) for number in numbers]))


def test_wrong_actions_are_refused_by_name() -> None:
    pipeline = pipeline_of("control")
    with pytest.raises(StateError, match=mentions("nothing", "action")):
        pipeline.tables.write([EntryWrite(Change.INSERT, PAIRS, (1, 1), ActionCall("nothing"))])
    with pytest.raises(StateError, match=mentions(2, 1)):
        pipeline.tables.write([EntryWrite(Change.INSERT, PAIRS, (1, 1), ActionCall(SET_TAG, (1,)))])
    with pytest.raises(StateError, match="is constant"):
        pipeline.tables.set_default(PAIRS, ActionCall(SET_TAG, (1, 1)))


@pytest.mark.parametrize(
    ("program", "name", "value"),
    [
        ("entities", "Entities.cells", 2**32 - 1),
        ("control", "ControlIngress.cells", 2**96 - 5),
    ],
)
def test_registers_are_read_and_written_in_full_width(program: str, name: str, value: int) -> None:
    pipeline = pipeline_of(program)
    pipeline.cells.write_register(name, 6, value)
    assert pipeline.cells.read_register(name, 5, 8) == [0, value, 0]


def test_counters_are_read_and_written() -> None:
    pipeline = pipeline_of("control")
    pipeline.cells.write_counter("ControlIngress.drops", 3, CounterValue(5, 6))
    assert pipeline.cells.read_counter("ControlIngress.drops", 2, 5) == [(0, 0), (5, 6), (0, 0)]


# -- reads and writes as a whole


def test_a_read_has_the_members_and_groups_of_the_time_of_the_call() -> None:
    pipeline = CompiledPipeline(compiled("profiles"))
    table, paths = "Choose.selected", "Choose.paths"
    for member in (1, 2, 3):
        pipeline.profiles.write_member(paths, member, ActionCall("Choose.balance", (member,)))
    pipeline.profiles.write_group(paths, 5, [1, 3])
    uses: list[EntryAction] = [UseMember(2), UseGroup(5), UseMember(1)]
    keys = [EntryKey(table, (Masked(value, 0xFF),), value + 1) for value in range(3)]
    for value, use in enumerate(uses):
        insert(pipeline, table, (Masked(value, 0xFF),), use, value + 1)
    reader = pipeline.tables.read(table)
    assert next(reader).action == UseMember(2)

    deleted = [EntryWrite(Change.DELETE, table, key.key, None, key.priority) for key in keys[:2]]
    assert pipeline.tables.write(deleted) == [None, None]
    pipeline.profiles.write_group(paths, 5, None)
    pipeline.profiles.write_member(paths, 2, None)
    pipeline.profiles.write_member(paths, 9, ActionCall("Choose.balance", (9,)))
    pipeline.profiles.write_group(paths, 6, [9])

    assert [entry.action for entry in reader] == uses[1:]
    assert [entry.action for entry in pipeline.tables.read(table)] == [UseMember(1)]
    assert [entry and entry.action for entry in pipeline.tables.find(keys)] == [None, None, UseMember(1)]


def test_a_packet_sees_a_clone_session_entirely_before_or_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A packet whenever the lock is free: its clones have the old ports and length, or the new ones."""
    pipeline = CompiledPipeline(compiled("replication"))
    locked = Memory.locked
    met: list[list[tuple[int, int]]] = []

    @contextmanager
    def followed_by_a_packet(memory: Memory) -> Iterator[None]:
        with locked(memory):
            yield
        with monkeypatch.context() as usual:
            usual.setattr(Memory, "locked", locked)
            met.append([(output.port, len(output.frame)) for output in pipeline.process(1, CLONED, 0, 0)])

    pipeline.replication.write_clone_session(1, [Replica(4), Replica(5)], 20)
    monkeypatch.setattr(Memory, "locked", followed_by_a_packet)
    pipeline.replication.write_clone_session(1, [Replica(6)], 30)
    assert met == [[(6, 30)]]
