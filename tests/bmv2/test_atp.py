"""BMv2 runs ATP as softswitch does: what goes to the server, what to all workers, with which values."""

from __future__ import annotations

from random import Random

import pytest

from controller.atp import CONTROL
from controller.tables import Change, RowEncoder, Update
from foundation.designs.interface import Hosts
from softswitch.conformance.client import read_p4info
from switch_harness.bmv2 import twins
from tests.bmv2.test_switchml import by_port
from tests.harness import testnet
from tests.harness.atp import SwitchUnderTest, arm_with
from tests.unit.atp.test_program import JOBS
from tests.unit.programs.test_atp_in_the_kernel import WORKERS, drawn

pytestmark = pytest.mark.bmv2

PACKETS = 2_000
PROGRAM = testnet.COMPILED / "atp"


@pytest.mark.parametrize("check", [False, True], ids=["published", "checked"])
def test_bmv2_agrees(check: bool) -> None:
    random, encoder = Random(check), RowEncoder(read_p4info(PROGRAM))
    arms = [arm_with(check, job=job) for job in JOBS]
    frames, answers = SwitchUnderTest(WORKERS, arms), 0
    with twins(PROGRAM) as both:
        for row in CONTROL.rows(Hosts(WORKERS, 1), arms, 0):
            assert both.codes(encoder.update(Update(Change.INSERT, row))) == (0, 0), row
        for number in range(PACKETS):
            step = drawn(random)
            frame = frames.frame(step.host, step.packet(WORKERS), step.is_marked)
            ours, _ = both.expect(frames.port(step.host), frame)
            theirs = both.observe(frames.port(step.host), frame)
            assert by_port(ours) == by_port(theirs), f"packet {number}: {step}"
            answers += len(ours)
        assert answers > PACKETS // 2
        ours_counted, theirs_counted = both.counters()
        assert ours_counted == theirs_counted
