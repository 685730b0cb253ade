"""The front end on the kernel's frames, by test runs: equal to the interpreter for all lengths."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from softswitch.errors import KernelError
from softswitch.interpreter import InterpretedPipeline
from softswitch.kernel.hooks import Hook
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import seeds, steps
from switch_harness.kernel import LEAST, OnLoopback, is_taken
from switch_harness.state import StateDrawer, cells
from switch_harness.wording import mentions


@pytest.fixture
def make() -> Iterator[list[OnLoopback]]:
    made: list[OnLoopback] = []
    yield made
    for pipeline in made:
        pipeline.close()


HOOKS = [Hook.TCX, Hook.XDP]


ONE_PASS = [
    "header_unions",
    "hashes",
    "jumps",
    "lookups",
    "meters",
    "profiles",
    "registers",
    "stacks",
    "varbit",
]


# The frames of `arithmetic` grow by 300 bytes: there are 256 in front of a frame at XDP.
PLACES = [("arithmetic", Hook.TCX), *((name, hook) for name in ONE_PASS for hook in HOOKS)]


@pytest.mark.parametrize(("name", "hook"), PLACES)
@pytest.mark.parametrize("seed", seeds(1))
def test_constructs_of_all_lengths_equal_the_interpreter_on_the_kernels_frames(
    name: str, seed: int, hook: Hook, make: list[OnLoopback]
) -> None:
    construct, program, random = CONSTRUCTS[name], compiled(name), Random(seed)
    oracle, kernel = InterpretedPipeline(program), OnLoopback(program, hook)
    make.append(kernel)
    for pipeline in (oracle, kernel):
        construct.prepare(pipeline)
        pipeline.seed_random(7)
    drawer = StateDrawer(oracle, random)
    for now in range(0, steps(800) * 1000, 1000):
        if drawer.kinds and random.random() < 0.2:
            write = drawer.draw()
            assert write(oracle) == write(kernel)
        port, frame = construct.frame(random)
        if is_taken(frame):
            received = [out for out in oracle.process(port, frame, now, now + 3) if len(out.frame) >= LEAST]
            assert kernel.process(port, frame, now, now + 3) == received
            assert kernel.take_notices() == oracle.take_notices()
    assert cells(oracle, drawer.entries) == cells(kernel, drawer.entries)


def test_xdp_sends_no_copies() -> None:
    with pytest.raises(KernelError, match=mentions("XDP", "several")):
        OnLoopback(compiled("replication"), Hook.XDP)
