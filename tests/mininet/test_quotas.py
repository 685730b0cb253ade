"""The quota of a quiet job that shares a Mininet network with a noisy job."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import PIPE

import pytest

from foundation.protocol.header import LANES
from tests.harness.warm_processes import warm_process

pytestmark = pytest.mark.mininet
TIMEOUT_S = 300
KEYS_A_STEP = 60
STEPS = 100
"""Steps of the quiet job in a block."""
SLOTS = 16
"""Slots of a lane in this controller's view: 512 in all."""
QUOTA = LANES * SLOTS * 3 // 4


def test_a_noisy_job_costs_no_hits_of_a_job_with_a_quota(tmp_path: Path) -> None:
    ran = warm_process("tests.mininet.two_jobs", str(tmp_path), "9594", stdout=PIPE, stderr=PIPE)
    output, errors = ran.communicate(TIMEOUT_S)
    assert ran.returncode == 0, errors
    beside, with_quota, alone = json.loads(output.splitlines()[-1])
    assert beside["updates"] == with_quota["updates"] == alone["updates"] == STEPS * KEYS_A_STEP
    # Steps and hot set are the same, so are the updates that the switch has added.
    assert with_quota["keys"] == alone["keys"] > 0.95 * QUOTA
    assert with_quota["in_switch"] == pytest.approx(alone["in_switch"], rel=0.01)
    # Without a quota, jobs that want more share the slots equally.
    assert beside["keys"] < 0.7 * QUOTA and beside["share"] < 0.95 * with_quota["share"]
