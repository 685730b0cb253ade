"""The kernel gives what the interpreter gives: frames, notices, and all that packets leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from softswitch.conformance import direct
from softswitch.conformance.direct import DirectPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.kernel import assembler, instructions, spills
from softswitch.kernel.spills import move_spills
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import seeds, steps
from switch_harness.state import StateDrawer, cells

SMALL = {"digests_logs", "header_unions", "jumps", "registers", "replication", "stacks", "value_sets"}
"""Programs that need less stack than the test below allows."""


@contextmanager
def in_kernel(program: Program) -> Iterator[DirectPipeline]:
    pipeline = DirectPipeline(program)
    try:
        yield pipeline
    finally:
        pipeline.close()


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", sorted(CONSTRUCTS))
def test_constructs_give_the_same_frames_in_the_kernel_as_in_the_interpreter(name: str, seed: int) -> None:
    """The first half runs as prepared, the second with random writes between the frames."""
    compare(name, seed, 800)


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", sorted(CONSTRUCTS.keys() - SMALL))
def test_constructs_with_values_moved_off_the_stack_equal_the_interpreter(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only addresses that must stay, and few others, are on the stack; jumps are those of large programs."""
    monkeypatch.setattr(direct, "cached_code", lambda _program, _options, build: build())
    moved: list[int] = []

    def move(code: bytes, area_offset: int) -> tuple[bytes, int]:
        code, used = move_spills(code, area_offset)
        moved.append(used)
        return code, used

    monkeypatch.setattr(assembler, "move_spills", move)
    monkeypatch.setattr(spills, "BPF_STACK_BYTES", 96)
    monkeypatch.setattr(instructions, "_NEAR_JUMP_LIMIT", 16)
    compare(name, seed, 300)
    assert sum(moved) > 0


def compare(name: str, seed: int, count: int) -> None:
    construct, program, random = CONSTRUCTS[name], compiled(name), Random(seed)
    oracle = InterpretedPipeline(program)
    with in_kernel(program) as fast:
        for pipeline in (oracle, fast):
            construct.prepare(pipeline)
            pipeline.seed_random(7)
        drawer = StateDrawer(oracle, random)
        now = 0
        for step in range(steps(count)):
            if step > steps(count) * 2 // 5 and drawer.kinds and random.random() < 0.3:
                write = drawer.draw()
                assert write(oracle) == write(fast)
                continue
            now += random.choice([0, 1, 1000, 400_000])
            port, frame = construct.frame(random)
            assert oracle.process(port, frame, now, now + 3) == fast.process(port, frame, now, now + 3)
            assert oracle.take_notices() == fast.take_notices()
        assert cells(oracle, drawer.entries) == cells(fast, drawer.entries)
