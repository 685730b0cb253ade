"""ATP and SwitchML in the kernel: registers and values fit BPF's stack, and answers go to a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from random import Random
from typing import Any

import pytest

from foundation.designs.interface import Design
from hotline_allreduce.atp import design as atp
from hotline_allreduce.atp.packet import ECN, OVERFLOW, RESEND
from hotline_allreduce.exact import design as exact
from hotline_allreduce.switchml import design as switchml
from hotline_simulator.simulated_switch import compiled_config
from packages.allreduce.tests.harness import atp as atp_harness
from packages.allreduce.tests.harness import switchml as switchml_harness
from packages.allreduce.tests.unit.atp import test_program as of_atp
from packages.allreduce.tests.unit.switchml import test_program as of_switchml
from softswitch.conformance.direct import DirectPipeline
from switch_harness.effort import steps

pytestmark = pytest.mark.usefixtures("kernel_datapath")

WORKERS = 3
ATP_REGISTERS = ("claim.owners", "claim.tensors", "bitmaps.bitmaps", "congestion.marks", "count.counts")
SWITCHML_REGISTERS = (
    "bitmaps.bitmaps",
    "count.remaining",
    "exponents.largest",
    "stale_chunk_filter.numbers",
    "slot_timeout.since",
)


def drawn_for_atp(random: Random) -> of_atp.Step:
    return of_atp.Step(
        random.randrange(atp_harness.SERVER, WORKERS), random.randrange(of_atp.CELLS),
        random.choice([0, 0, 0, 0, RESEND, OVERFLOW, OVERFLOW | RESEND, ECN]), random.choice(of_atp.JOBS),
        random.randrange(1, 3), random.getrandbits(32), random.randrange(1, 4),
        is_marked=random.random() < 0.2,
    )  # fmt: skip


def drawn_for_switchml(random: Random, has_cut_bits: bool = False) -> of_switchml.Step:
    return of_switchml.Step(
        random.randrange(WORKERS), random.randrange(of_switchml.SLOTS), random.randrange(2),
        random.randrange(4), random.getrandbits(32),
        (random.randrange(-128, 128), random.randrange(-128, 128)),
        cut=random.getrandbits(32) if has_cut_bits else None,
    )  # fmt: skip


def answers(here: Any, there: Any, packets: Iterable[tuple[Any, ...]]) -> int:
    """Send packets through both programs; return the number of their answers, which are alike."""
    found = 0
    for packet in packets:
        taken = here.take(*packet)
        assert taken == there.take(*packet)
        found += len(taken)
    return found


def check_cells(here: Any, there: Any, registers: Sequence[str], lanes: Sequence[int], count: int) -> None:
    for name in (*registers, *(f"value_{lane:02d}.sums" for lane in lanes)):
        assert here.cells(name, count) == there.cells(name, count)


@pytest.mark.parametrize("check", [False, True], ids=["published", "check"])
def test_atp_in_the_kernel_answers_like_the_compiled_program(check: bool) -> None:
    random, arms = Random(check), [atp_harness.arm_with(check, job=job) for job in of_atp.JOBS]
    with closing(DirectPipeline(compiled_config(atp.DESIGN).config.program)) as pipeline:
        here = atp_harness.SwitchUnderTest(WORKERS, arms, pipeline=pipeline)
        there = atp_harness.SwitchUnderTest(WORKERS, arms)
        drawn = (drawn_for_atp(random) for _ in range(steps(400)))
        packets = ((step.host, step.packet(WORKERS), step.is_marked) for step in drawn)
        assert answers(here, there, packets) > steps(400) // 2  # to the server, or to all workers
        check_cells(here, there, ATP_REGISTERS, of_atp.LANES, of_atp.CELLS)


@pytest.mark.parametrize(
    ("check", "slot_timeout_us", "design"),
    [(False, 0, switchml.DESIGN), (True, 40, switchml.DESIGN), (True, 0, exact.DESIGN)],
    ids=["published", "patience", "exact"],
)
def test_switchml_in_the_kernel_answers_like_the_compiled_program(
    check: bool, slot_timeout_us: int, design: Design
) -> None:
    random, arm, now = Random(f"{check}"), switchml_harness.arm_with(check, slot_timeout_us), 0
    packets = []
    for _ in range(steps(400)):
        step, now = drawn_for_switchml(random, design is exact.DESIGN), now + random.choice([0, 1, 30])
        packets.append((step.worker, step.packet, now))
    with closing(DirectPipeline(compiled_config(design).config.program)) as pipeline:
        here = switchml_harness.SwitchUnderTest(WORKERS, arm, pipeline=pipeline, design=design)
        there = switchml_harness.SwitchUnderTest(WORKERS, arm, design=design)
        assert answers(here, there, packets) > steps(400) // 5  # results of chunks, to one and to all
        registers = [*SWITCHML_REGISTERS, *(["cut_bits.cut"] if design is exact.DESIGN else [])]
        check_cells(here, there, registers, of_switchml.LANES, 2 * of_switchml.SLOTS)
