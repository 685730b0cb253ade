"""Explaining changes nothing, and a trace tells all that happened: replayed, it gives the same frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.explain.events import to_json
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.pipeline import ControlPlane
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import examples
from switch_harness.replay import Replay
from switch_harness.state import StateDrawer, cells
from tests.harness import testnet
from tests.harness.vectors import Source, hot_set

Draw = Callable[[Random], tuple[int, bytes]]
LIMITS = settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))


class Pair:
    """An interpreter that is observed, one that is not, and what a reader of the trace makes of it."""

    def __init__(self, program: Program, prepare: Callable[[ControlPlane], None], queues: int = 1) -> None:
        self.recorder = Recorder(program)
        self.observed = InterpretedPipeline(program, queues, self.recorder)
        self.alone = InterpretedPipeline(program, queues)
        self.replay = Replay(program)
        for pipeline in (self.observed, self.alone):
            prepare(pipeline)
            pipeline.seed_random(7)

    def process(self, port: int, frame: bytes, now: int) -> None:
        outputs = self.observed.process(port, frame, now, now + 3)
        assert outputs == self.alone.process(port, frame, now, now + 3)
        assert self.observed.take_notices() == self.alone.take_notices()
        lines = [json.loads(to_json(event)) for event in self.recorder.take()]
        assert self.replay.frame(lines) == outputs

    def check_state(self) -> None:
        """State that only packets have changed is what the trace says."""
        assert cells(self.observed) == cells(self.alone)
        for (name, index), value in self.replay.registers.items():
            assert self.observed.read_register(name, index, index + 1) == [value]
        for (name, index), (packets, octets) in self.replay.counters.items():
            assert self.observed.read_counter(name, index, index + 1) == [(packets, octets)]


@pytest.mark.parametrize("name", CONSTRUCTS)
@LIMITS
@given(random=st.randoms(use_true_random=False), steps=st.integers(1, 30))
def test_a_trace_tells_all_and_changes_nothing(name: str, random: Random, steps: int) -> None:
    construct = CONSTRUCTS[name]
    pair, now = Pair(compiled(name), construct.prepare, random.choice([1, 8])), 0
    for _ in range(steps):
        now += random.choice([0, 1, 1_000, 400_000])
        pair.process(*construct.frame(random), now)
    pair.check_state()


@pytest.mark.parametrize("name", CONSTRUCTS)
@LIMITS
@given(random=st.randoms(use_true_random=False), steps=st.integers(1, 30))
def test_nothing_changes_whatever_the_control_plane_writes(name: str, random: Random, steps: int) -> None:
    construct = CONSTRUCTS[name]
    pair, now = Pair(compiled(name), construct.prepare), 0
    drawer = StateDrawer(pair.alone, random)
    for _ in range(steps):
        if drawer.kinds and random.random() < 0.3:
            write = drawer.draw()
            assert write(pair.observed) == write(pair.alone)
            continue
        port, frame = construct.frame(random)
        now += random.choice([0, 1, 1_000, 400_000])
        outputs = pair.observed.process(port, frame, now, now + 3)
        assert outputs == pair.alone.process(port, frame, now, now + 3)
    assert cells(pair.observed, drawer.entries) == cells(pair.alone, drawer.entries)


@LIMITS
@given(random=st.randoms(use_true_random=False))
def test_the_aggregation_program(random: Random) -> None:
    entries = [*testnet.network(), *hot_set(random)]
    pair = Pair(testnet.program(), lambda pipeline: testnet.write(pipeline, entries))
    source = Source(random, pair.observed)
    for now in range(3):
        pair.process(*source.draw(), now)
    pair.check_state()
