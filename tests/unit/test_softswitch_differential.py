"""Interpreter and compiled switch agree bit for bit: outputs, registers, counters."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.protocol.hashing import lane_of
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.pipeline import Change
from switch_harness.effort import examples, seeds
from tests.harness import testnet
from tests.harness.vectors import KEYS, SLOTS, STATES, Source, hot_set

PROGRAM = testnet.program()


@pytest.fixture(scope="module")
def code() -> MachineCode:
    return MachineCode(PROGRAM)


def compare(random: Random, code: MachineCode, frames: int, program: Program = PROGRAM) -> None:
    oracle, fast = InterpretedPipeline(program), CompiledPipeline(program, code)
    entries = testnet.network() + hot_set(random)
    for pipeline in (oracle, fast):
        testnet.write(pipeline, entries)
    source = Source(random, oracle)
    for now in range(frames):
        port, frame = source.draw()
        assert fast.process(port, frame, now, now + 3) == oracle.process(port, frame, now, now + 3)
        if random.random() < 0.2:
            key = random.randrange(KEYS)
            change = random.choice(list(Change))
            move = testnet.hot_entry(
                change, key, random.choice(STATES), random.randrange(SLOTS), lane_of(key)
            )
            ours, theirs = fast.write_entries([move]), oracle.write_entries([move])
            assert [type(error) for error in ours] == [type(error) for error in theirs]
    assert testnet.state_of(fast) == testnet.state_of(oracle)


@pytest.mark.parametrize("seed", seeds(10))
def test_agree_on_random_traffic(seed: int, code: MachineCode) -> None:
    """Volume: 10 table states, 200 frames each; tests/bmv2 sends such vectors to BMv2 too."""
    compare(Random(seed), code, 200)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_agree_on_generated_traffic(random: Random, code: MachineCode) -> None:
    """Search: hypothesis chooses every draw, and shrinks to the shortest disagreement."""
    compare(random, code, 6)
