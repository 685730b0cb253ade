"""BMv2 runs SwitchML and ATP as softswitch does: what goes to whom, with which values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from controller.tables import Change, RowEncoder, TableRow, Update
from foundation.designs.interface import Design, SwitchHosts
from foundation.designs.registry import design as find_design
from hotline_allreduce.atp import control as atp
from hotline_allreduce.exact import design as exact
from hotline_allreduce.switchml import control as switchml
from hotline_allreduce.switchml.design import DESIGN
from packages.allreduce.tests.harness import atp as atp_harness
from packages.allreduce.tests.harness import switchml as switchml_harness
from packages.allreduce.tests.unit.atp.test_program import JOBS
from packages.allreduce.tests.unit.test_lockstep_in_the_kernel import (
    WORKERS,
    drawn_for_atp,
    drawn_for_switchml,
)
from softswitch.conformance.client import read_p4info
from softswitch.pipeline import Output
from switch_harness.effort import steps
from switch_harness.twins import twins

pytestmark = pytest.mark.bmv2

PACKETS = steps(2_000)
HOSTS = SwitchHosts(WORKERS, 1)
Packets = Iterator[tuple[int, bytes, object]]
"""Port and frame of each packet, and what it is."""


def by_port(outputs: list[Output]) -> dict[int, list[bytes]]:
    ports: dict[int, list[bytes]] = defaultdict(list)
    for output in outputs:
        ports[int(output.port)].append(bytes(output.frame))
    return ports


def answers(design: str, rows: Sequence[TableRow], packets: Packets) -> int:
    """Send packets through both switches; return the number of their answers, which agree."""
    program, found = find_design(design).program.with_suffix(""), 0
    encoder = RowEncoder(read_p4info(program))
    with twins(program) as both:
        for row in rows:
            assert both.codes(encoder.update(Update(Change.INSERT, row))) == (0, 0), row
        for number, (port, frame, what) in enumerate(packets):
            ours, _ = both.expect(port, frame)
            reference = both.observe(port, frame)
            assert by_port(ours) == by_port(reference), f"packet {number}: {what}"
            found += len(ours)
        counters, reference_counters = both.counters()
        assert counters == reference_counters
    return found


@pytest.mark.parametrize(
    ("check", "design"),
    [(False, DESIGN), (True, DESIGN), (True, exact.DESIGN)],
    ids=["published", "checked", "exact"],
)
def test_bmv2_agrees_on_switchml(check: bool, design: Design) -> None:
    random, arm = Random(check), switchml_harness.arm_with(check)
    frames = switchml_harness.SwitchUnderTest(WORKERS, arm, design=design)
    drawn = (drawn_for_switchml(random, has_cut_bits=design is exact.DESIGN) for _ in range(PACKETS))
    packets = ((step.worker + 1, frames.frame(step.worker, step.packet.build()), step) for step in drawn)
    # Sums of chunks, to one or to all.
    assert answers(design.name, switchml.CONTROL.rows(HOSTS, [arm], 0), packets) > PACKETS // 6


@pytest.mark.parametrize("check", [False, True], ids=["published", "checked"])
def test_bmv2_agrees_on_atp(check: bool) -> None:
    random, arms = Random(check), [atp_harness.arm_with(check, job=job) for job in JOBS]
    frames = atp_harness.SwitchUnderTest(WORKERS, arms)
    drawn = (drawn_for_atp(random) for _ in range(PACKETS))
    packets = (
        (frames.port(step.host), frames.frame(step.host, step.packet(WORKERS), step.is_marked), step)
        for step in drawn
    )
    assert answers("atp", atp.CONTROL.rows(HOSTS, arms, 0), packets) > PACKETS // 2
