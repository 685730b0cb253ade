"""The kernel gives what the interpreter gives: frames, notices, and all that packets leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from softswitch.conformance.direct import DirectPipeline
from softswitch.errors import KernelError
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import seeds, steps
from switch_harness.state import StateDrawer, cells

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
    """The first half runs as prepared, the second with random writes between the frames."""
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
