"""ATP in the kernel: its 62 registers and values fit BPF's stack, and acknowledgements go to a group."""

from __future__ import annotations

from random import Random

import pytest

from foundation.designs.atp import DESIGN
from hosts.atp.packet import ECN, OVERFLOW, RESEND
from simulator.simulated_switch import compiled_config
from softswitch.conformance.direct import DirectPipeline
from switch_harness.effort import steps
from tests.harness.atp import SERVER, SwitchUnderTest, arm_with
from tests.unit.atp.test_program import CELLS, JOBS, LANES, Step

pytestmark = pytest.mark.usefixtures("kernel_datapath")

WORKERS = 3
REGISTERS = ("claim.owners", "claim.tensors", "bitmaps.bitmaps", "congestion.marks", "count.counts")


def drawn(random: Random) -> Step:
    return Step(
        random.randrange(SERVER, WORKERS), random.randrange(CELLS),
        random.choice([0, 0, 0, 0, RESEND, OVERFLOW, OVERFLOW | RESEND, ECN]), random.choice(JOBS),
        random.randrange(1, 3), random.getrandbits(32), random.randrange(1, 4),
        is_marked=random.random() < 0.2,
    )  # fmt: skip


@pytest.mark.parametrize("check", [False, True], ids=["published", "check"])
def test_it_is_what_the_compiled_program_is(check: bool) -> None:
    random, arms = Random(check), [arm_with(check, job=job) for job in JOBS]
    pipeline = DirectPipeline(compiled_config(DESIGN).config.program)
    try:
        here = SwitchUnderTest(WORKERS, arms, pipeline=pipeline)
        there = SwitchUnderTest(WORKERS, arms)
        answers = 0
        for _ in range(steps(400)):
            step = drawn(random)
            taken = here.take(step.host, step.packet(WORKERS), step.is_marked)
            assert taken == there.take(step.host, step.packet(WORKERS), step.is_marked)
            answers += len(taken)
        assert answers > steps(400) // 2  # to the server, or to all workers
        for name in (*REGISTERS, *(f"value_{lane:02d}.sums" for lane in LANES)):
            assert here.cells(name, CELLS) == there.cells(name, CELLS)
    finally:
        pipeline.close()
