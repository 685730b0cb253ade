"""BMv2 runs SwitchML as softswitch does: whose packet is a result, for whom, with which values."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from controller.switchml import CONTROL
from controller.tables import Change, RowEncoder, Update
from foundation.designs.interface import Hosts
from softswitch.conformance.client import read_p4info
from softswitch.pipeline import Output
from switch_harness.bmv2 import twins
from tests.harness import testnet
from tests.harness.switchml import SwitchUnderTest, arm_with
from tests.unit.programs.test_switchml_in_the_kernel import WORKERS, drawn

pytestmark = pytest.mark.bmv2

PACKETS = 2_000
PROGRAM = testnet.COMPILED / "switchml"


def by_port(outputs: list[Output]) -> dict[int, list[bytes]]:
    ports: dict[int, list[bytes]] = defaultdict(list)
    for output in outputs:
        ports[int(output.port)].append(bytes(output.frame))
    return ports


@pytest.mark.parametrize("check", [False, True], ids=["published", "checked"])
def test_bmv2_agrees(check: bool) -> None:
    random, arm, encoder = Random(check), arm_with(check), RowEncoder(read_p4info(PROGRAM))
    frames, answers = SwitchUnderTest(WORKERS, arm), 0
    with twins(PROGRAM) as both:
        for row in CONTROL.rows(Hosts(WORKERS, 1), [arm], 0):
            assert both.codes(encoder.update(Update(Change.INSERT, row))) == (0, 0), row
        for number in range(PACKETS):
            step = drawn(random)
            frame = frames.frame(step.worker, step.packet.build())
            ours, _ = both.expect(step.worker + 1, frame)
            reference = both.observe(step.worker + 1, frame)
            assert by_port(ours) == by_port(reference), f"packet {number}: {step}"
            answers += len(ours)
        assert answers > PACKETS // 6  # sums of chunks, to one or to all
        ours_counted, theirs_counted = both.counters()
        assert ours_counted == theirs_counted
