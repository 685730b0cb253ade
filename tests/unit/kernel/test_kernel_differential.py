"""The kernel gives what the interpreter gives: frames, notices, and all that packets leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from foundation.protocol.header import LANES
from softswitch.errors import KernelError
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.kernel.pipeline import DirectPipeline
from softswitch.pipeline import Change
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import seeds, steps
from switch_harness.state import StateDrawer, cells
from tests.harness import testnet
from tests.harness.vectors import KEYS, SLOTS, STATES, Source, hot_set, lane_of

REFUSED = {"arithmetic": "numbers so wide that BPF's stack of 512 bytes is too small"}


@contextmanager
def in_kernel(program: Program) -> Iterator[DirectPipeline]:
    pipeline = DirectPipeline(program)
    try:
        yield pipeline
    finally:
        pipeline.close()


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", sorted(CONSTRUCTS.keys() - REFUSED.keys()))
def test_constructs(name: str, seed: int) -> None:
    """As prepared, and then with writes drawn between the frames."""
    construct, program, random = CONSTRUCTS[name], compiled(name), Random(seed)
    oracle = InterpretedPipeline(program)
    with in_kernel(program) as fast:
        for pipeline in (oracle, fast):
            construct.prepare(pipeline)
            pipeline.seed_random(7)
        drawer = StateDrawer(oracle, random)
        now = 0
        for step in range(steps(1500)):
            if step > steps(600) and drawer.kinds and random.random() < 0.3:
                write = drawer.draw()
                assert write(oracle) == write(fast)
                continue
            now += random.choice([0, 1, 1000, 400_000])
            port, frame = construct.frame(random)
            assert oracle.process(port, frame, now, now + 3) == fast.process(port, frame, now, now + 3)
            assert oracle.take_notices() == fast.take_notices()
        assert cells(oracle, drawer.entries) == cells(fast, drawer.entries)


@pytest.mark.parametrize("name", REFUSED)
def test_what_bpf_cannot_do_is_refused_by_name(name: str) -> None:
    with pytest.raises(KernelError, match=REFUSED[name]):
        DirectPipeline(compiled(name))


@pytest.mark.parametrize("seed", seeds(10))
def test_our_program(seed: int) -> None:
    compare(Random(seed), LANES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(2))
def test_our_program_of_64_lanes(seed: int) -> None:
    compare(Random(seed), 64)


def compare(random: Random, lanes: int) -> None:
    """2,000 frames a table state in `make soak`, and a fifth as many writes between them."""
    program = testnet.program(lanes)
    oracle = InterpretedPipeline(program)
    with in_kernel(program) as fast:
        entries = testnet.network() + hot_set(random, lanes=lanes)
        for pipeline in (oracle, fast):
            testnet.write(pipeline, entries)
        source = Source(random, oracle, lanes)
        for now in range(steps(2000)):
            port, frame = source.draw()
            assert fast.process(port, frame, now, now + 3) == oracle.process(port, frame, now, now + 3)
            if random.random() < 0.2:
                key, state = random.randrange(KEYS), random.choice(STATES)
                change, slot = random.choice(list(Change)), random.randrange(SLOTS)
                move = testnet.hot_entry(change, key, state, slot, lane_of(key, lanes))
                ours, theirs = fast.write_entries([move]), oracle.write_entries([move])
                assert [type(error) for error in ours] == [type(error) for error in theirs]
        assert testnet.state_of(fast) == testnet.state_of(oracle)
        assert any(sum(testnet.lane_stats(fast, lane)) for lane in range(lanes // 2, lanes))
