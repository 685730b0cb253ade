"""After quiescing, what workers sent is what PSs and switch hold, whatever network and controller did."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from foundation.protocol.header import Header
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.jit import MachineCode
from switch_harness.effort import examples
from tests.harness.switches import PipelineSwitch, PlainSwitch, Switch
from tests.harness.testbed import MS, Testbed
from tests.harness.testnet import program

SPARSE = np.sort(np.random.default_rng(4).integers(0, 2**63, 40, dtype=np.uint64) * np.uint64(2))


PROGRAM = program()


@pytest.fixture(scope="module")
def code() -> MachineCode:
    return MachineCode(PROGRAM)


def play(bed: Testbed, stimuli: int) -> None:
    """Play a random schedule; mostly frames arrive."""
    random = bed.random
    for _ in range(stimuli):
        choice = random.random()
        worker = random.randrange(len(bed.workers))
        if choice < 0.80:
            bed.deliver(random.getrandbits(30))
        elif choice < 0.90:
            bed.begin(worker)
            bed.transmit()
        elif choice < 0.94:
            bed.pass_time(random.choice([1, 30, 200]) * MS)
        elif choice < 0.97:
            bed.start_move()
        elif choice < 0.98:
            bed.hint(worker)
        elif choice < 0.985:
            bed.restart(worker)
        else:
            bed.command()


def played(switch: Switch, seed: int, stimuli: int) -> Testbed:
    random = Random(seed)
    bed = Testbed(
        switch,
        random,
        loss=random.choice([0.0, 0.05, 0.3]),
        doubling=random.choice([0.0, 0.05, 0.5]),
        proxy=random.random() < 0.5,
        window=random.choice([2, 8, 64]),
        sparse=random.choice([None, SPARSE]),
    )
    play(bed, stimuli)
    bed.quiesce()
    return bed


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_plain_switch(seed: int) -> None:
    played(PlainSwitch(), seed, 1500).check()


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32))
def test_the_p4_program_compiled(code: MachineCode, seed: int) -> None:
    played(PipelineSwitch(CompiledPipeline(PROGRAM, code)), seed, 1500).check()


@settings(max_examples=examples(3))
@given(seed=st.integers(0, 2**32))
def test_the_p4_program_interpreted(seed: int) -> None:
    played(PipelineSwitch(InterpretedPipeline(PROGRAM)), seed, 400).check()


class TodaysHits(PlainSwitch):
    """Answers a duplicate push with the lanes that are hot now."""

    def served_of_duplicate(self, header: Header, hits: int, stored: int) -> int:
        return hits


class EveryTurnIsNew(PlainSwitch):
    """Adds duplicates."""

    def _turn(self, row: int, header: Header, hits: int) -> tuple[bool, int] | None:
        return False, hits


@pytest.mark.parametrize("broken", [TodaysHits, EveryTurnIsNew])
def test_a_broken_rule_shows(broken: Callable[[], Switch]) -> None:
    with pytest.raises(AssertionError, match=r"too much|come to rest"):
        for seed in range(60):
            played(broken(), seed, 800).check()


class Schedule(RuleBasedStateMachine):
    """Short schedules that hypothesis can shrink."""

    def __init__(self) -> None:
        super().__init__()
        self.bed = Testbed(PlainSwitch(), Random(1), parameters=8, window=2)

    @rule(worker=st.integers(0, 1))
    def begin(self, worker: int) -> None:
        self.bed.begin(worker)
        self.bed.transmit()

    @rule(index=st.integers(0, 20))
    def deliver(self, index: int) -> None:
        self.bed.deliver(index)

    @rule(index=st.integers(0, 20))
    def double(self, index: int) -> None:
        if self.bed.entering:
            self.bed.entering.append(self.bed.entering[index % len(self.bed.entering)])

    @rule(index=st.integers(0, 20))
    def lose(self, index: int) -> None:
        if self.bed.flying:
            self.bed.flying.pop(index % len(self.bed.flying))

    @rule(milliseconds=st.sampled_from([1, 30, 200]))
    def wait(self, milliseconds: int) -> None:
        self.bed.pass_time(milliseconds * MS)

    @rule()
    def move(self) -> None:
        self.bed.start_move()

    @rule(worker=st.integers(0, 1))
    def restart(self, worker: int) -> None:
        self.bed.restart(worker)

    @invariant()
    def nothing_is_malformed(self) -> None:
        assert not any(core.malformed for core in self.bed.cores())

    def teardown(self) -> None:
        self.bed.quiesce()
        self.bed.check()


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=examples(60), stateful_step_count=60)
