"""Prefix, ternary, optional and range matches: interpreter and compiled code agree."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from softswitch.compiled import CompiledPipeline
from softswitch.errors import EntryExists, EntryMissing
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, Match
from softswitch.jit import MachineCode
from softswitch.pipeline import ActionCall, Change, EntryKey, EntryWrite
from switch_harness.constructs import compiled
from switch_harness.effort import examples
from switch_harness.match_kinds import PREFIXES, WIDE, WIDE_MASKS, between, masked, probe

PROGRAM = compiled("match_kinds")
CODE = MachineCode(PROGRAM)


def prefix(value: int, length: int) -> Masked:
    return masked(value, (1 << 32) - (1 << (32 - length)))


EXACT = st.integers(0, 1)
LPM = st.builds(prefix, st.sampled_from(PREFIXES), st.sampled_from([0, 1, 8, 9, 16, 31, 32]))
WIDE_TERNARY = st.builds(masked, st.sampled_from(WIDE), st.sampled_from(WIDE_MASKS))
OPTIONAL = st.one_of(st.just(Masked(0, 0)), st.builds(masked, st.integers(0, 3), st.just(0xFF)))
SMALL_TERNARY = st.builds(masked, st.integers(0, 3), st.sampled_from([0, 1, 3, 0xFF]))
RANGE = st.builds(between, st.integers(0, 9), st.integers(0, 9))
WIDE_RANGE = st.builds(between, st.sampled_from(WIDE), st.sampled_from(WIDE))
KEYS: dict[str, st.SearchStrategy[tuple[Match, ...]]] = {
    "lpm": st.tuples(EXACT, LPM),
    "ternary": st.tuples(WIDE_TERNARY, OPTIONAL),
    "range": st.tuples(RANGE, SMALL_TERNARY, WIDE_RANGE),
}
PRIORITIES = st.integers(1, 6)


PROBES = st.builds(
    probe,
    st.one_of(st.sampled_from(PREFIXES), st.integers(0, 2**32 - 1)),
    EXACT,
    st.one_of(st.integers(0, 9), st.integers(40, 110)),
    st.integers(0, 3),
    st.sampled_from(WIDE),
)


class Kinds(RuleBasedStateMachine):
    """Ties of rank are left out by giving the entries of one priority the same value."""

    @initialize()
    def start(self) -> None:
        self.oracle, self.fast = InterpretedPipeline(PROGRAM), CompiledPipeline(PROGRAM, CODE)
        self.keys: dict[str, list[tuple[tuple[Match, ...], int]]] = {kind: [] for kind in KEYS}
        self.tied: set[int] = set()

    def write(self, change: Change, kind: str, key: tuple[Match, ...], priority: int) -> Exception | None:
        action = None if change is Change.DELETE else ActionCall(f"Pick.{kind}_hit", (self.value(priority),))
        entry = EntryWrite(change, f"Pick.{kind}_table", key, action, priority)
        ours, reference = self.fast.tables.write([entry]), self.oracle.tables.write([entry])
        assert [type(error) for error in ours] == [type(error) for error in reference]
        return ours[0]

    def value(self, priority: int) -> int:
        return 1000 + priority

    @rule(data=st.data(), kind=st.sampled_from(list(KEYS)))
    def insert(self, data: st.DataObject, kind: str) -> None:
        key = data.draw(KEYS[kind])
        priority = 0 if kind == "lpm" else data.draw(PRIORITIES)
        error = self.write(Change.INSERT, kind, key, priority)
        assert isinstance(error, EntryExists) == ((key, priority) in self.keys[kind])
        if error is None:
            if kind == "ternary" and any(priority == other for _, other in self.keys[kind]):
                self.tied.add(priority)
            self.keys[kind].append((key, priority))

    @rule(
        data=st.data(),
        kind=st.sampled_from(list(KEYS)),
        change=st.sampled_from([Change.MODIFY, Change.DELETE]),
    )
    def change(self, data: st.DataObject, kind: str, change: Change) -> None:
        if not self.keys[kind]:
            key, priority = data.draw(KEYS[kind]), 0 if kind == "lpm" else 1
            assert isinstance(self.write(change, kind, key, priority), EntryMissing)
            return
        key, priority = data.draw(st.sampled_from(self.keys[kind]))
        assert self.write(change, kind, key, priority) is None
        if change is Change.DELETE:
            self.keys[kind].remove((key, priority))

    @rule(frames=st.lists(PROBES, min_size=1, max_size=10))
    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            assert self.fast.process(0, frame, 0, 0) == self.oracle.process(0, frame, 0, 0)

    @invariant()
    def counters_agree(self) -> None:
        """Return whether counters agree, except where entries shared a priority: either may count then."""
        for key, priority in getattr(self, "keys", {}).get("ternary", []):
            if priority not in self.tied:
                stored = EntryKey("Pick.ternary_table", key, priority)
                assert self.fast.tables.counter(stored) == self.oracle.tables.counter(stored)


Kinds.TestCase.settings = settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
TestKinds = Kinds.TestCase


@pytest.mark.parametrize(
    ("prefix", "ranged", "expected"),
    [
        (0x0A000001, 100, 1),
        (0x0A000001, 101, 2),
        (0x0A0B0001, 5, 1),
        (0x0B000000, 55, 3),
        (0x0B000000, 61, 0),
    ],
)
def test_constant_entries_win_in_program_order(prefix: int, ranged: int, expected: int) -> None:
    for pipeline in (InterpretedPipeline(PROGRAM), CompiledPipeline(PROGRAM, CODE)):
        [output] = pipeline.process(0, probe(prefix, 0, ranged, 0, 0), 0, 0)
        assert int.from_bytes(output.frame[-2:], "big") == expected


def test_the_longest_prefix_wins() -> None:
    for pipeline in (InterpretedPipeline(PROGRAM), CompiledPipeline(PROGRAM, CODE)):
        writes = [
            EntryWrite(
                Change.INSERT,
                "Pick.lpm_table",
                (7, masked(0x0A0B0C0D, (1 << 32) - (1 << (32 - length)))),
                ActionCall("Pick.lpm_hit", (length,)),
            )
            for length in (0, 8, 24, 16, 32)
        ]
        assert not any(pipeline.tables.write(writes))
        for address, length in (
            (0x0A0B0C0D, 32),
            (0x0A0B0C00, 24),
            (0x0A0B0000, 16),
            (0x0A000000, 8),
            (1, 0),
        ):
            [output] = pipeline.process(0, probe(address, 7, 200, 0, 0), 0, 0)
            assert int.from_bytes(output.frame[21:23], "big") == length
