"""SwitchML in the kernel: its 64 registers and values fit BPF's stack, and its results go to a group."""

from __future__ import annotations

from random import Random

import pytest

from foundation.designs.switchml import DESIGN
from simulator.simulated_switch import compiled_config
from softswitch.conformance.direct import DirectPipeline
from switch_harness.effort import steps
from tests.harness.switchml import SwitchUnderTest, arm_with
from tests.unit.switchml.test_program import LANES, SLOTS, Step

pytestmark = pytest.mark.usefixtures("kernel_datapath")

WORKERS = 3
REGISTERS = (
    "bitmaps.bitmaps",
    "count.remaining",
    "exponents.largest",
    "stale_chunk_filter.numbers",
    "slot_timeout.since",
)


def drawn(random: Random) -> Step:
    return Step(
        random.randrange(WORKERS), random.randrange(SLOTS), random.randrange(2), random.randrange(4),
        random.getrandbits(32), (random.randrange(-128, 128), random.randrange(-128, 128)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("check", "slot_timeout_us"), [(False, 0), (True, 40)], ids=["published", "patience"]
)
def test_it_is_what_the_compiled_program_is(check: bool, slot_timeout_us: int) -> None:
    random, now = Random(f"{check}"), 0
    program = compiled_config(DESIGN).config.program
    arm, pipeline = arm_with(check, slot_timeout_us), DirectPipeline(program)
    try:
        here = SwitchUnderTest(WORKERS, arm, pipeline=pipeline)
        there = SwitchUnderTest(WORKERS, arm)
        answers = 0
        for _ in range(steps(400)):
            step, now = drawn(random), now + random.choice([0, 1, 30])
            taken = here.take(step.worker, step.packet, now)
            assert taken == there.take(step.worker, step.packet, now)
            answers += len(taken)
        assert answers > steps(400) // 4  # results of chunks, to one and to all
        for name in (*REGISTERS, *(f"value_{lane:02d}.sums" for lane in LANES)):
            assert here.cells(name, 2 * SLOTS) == there.cells(name, 2 * SLOTS)
    finally:
        pipeline.close()
