"""Interpreter and machine code agree on programs that cover each construct, whatever packets and state."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.jit import MachineCode
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import examples
from switch_harness.state import StateDrawer, cells


@cache
def machine_code(name: str) -> MachineCode:
    return MachineCode(compiled(name))


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_interpreter_and_machine_code_agree_on_many_frames_without_writes(name: str) -> None:
    """No writes between frames: long enough for every path of a program."""
    construct, program = CONSTRUCTS[name], compiled(name)
    oracle, fast = InterpretedPipeline(program), CompiledPipeline(program, machine_code(name))
    random = Random(1)
    for pipeline in (oracle, fast):
        construct.prepare(pipeline)
        pipeline.seed_random(7)
    now = 0
    for _ in range(600):
        now += random.choice([0, 1, 1000, 400_000])
        port, frame = construct.frame(random)
        assert oracle.process(port, frame, now, now + 3) == fast.process(port, frame, now, now + 3)
        assert oracle.take_notices() == fast.take_notices()
    assert cells(oracle) == cells(fast)


@pytest.mark.parametrize("name", CONSTRUCTS)
@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), prepared=st.booleans(), steps=st.integers(1, 60))
def test_interpreter_and_machine_code_agree_with_writes_between_frames(
    name: str, random: Random, prepared: bool, steps: int
) -> None:
    construct, program = CONSTRUCTS[name], compiled(name)
    oracle, fast = InterpretedPipeline(program), CompiledPipeline(program, machine_code(name))
    if prepared:
        for pipeline in (oracle, fast):
            construct.prepare(pipeline)
    drawer = StateDrawer(oracle, random)
    now = 1
    for _ in range(steps):
        if drawer.kinds and random.random() < 0.3:
            write = drawer.draw()
            assert write(oracle) == write(fast)
            continue
        port, frame = construct.frame(random)
        now += random.choice([0, 1, 10, 1_000, 100_000])
        assert oracle.process(port, frame, now, now + 3) == fast.process(port, frame, now, now + 3)
        assert oracle.take_notices() == fast.take_notices()
    assert cells(oracle, drawer.entries) == cells(fast, drawer.entries)


def test_no_entry_is_drawn_with_the_priority_of_a_prepared_entry() -> None:
    """Which of two entries with one priority wins is not defined, so that pipelines may differ."""
    prepared = InterpretedPipeline(compiled("profiles"))
    CONSTRUCTS["profiles"].prepare(prepared)
    drawer, table = StateDrawer(prepared, Random(1)), prepared.program.tables["Choose.selected"]
    there = {entry.priority for entry in prepared.tables.read(table.name)}
    drawn = {drawer.priority(table) for _ in range(5000)}
    assert there == {4, 5, 9}
    assert drawn == set(range(1, 200 + len(there))) - there


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_a_priority_without_queue_is_dropped(
    make: type[InterpretedPipeline] | type[CompiledPipeline],
) -> None:
    """BMv2's `--priority-queues`: one by default."""
    frame = bytes([0x80, 1]) + bytes(14)
    for queues, ports in ((1, []), (3, []), (4, [1])):
        pipeline = make(compiled("replication"), priority_queues=queues)
        assert [out.port for out in pipeline.process(1, frame, 0, 0)] == ports
