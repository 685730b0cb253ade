"""The quota of a quiet job that shares a Mininet network with a noisy job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.protocol.header import LANES

pytestmark = pytest.mark.mininet
TIMEOUT_S = 300
KEYS_A_STEP = 60
STEPS = 100
"""Steps of the quiet job in a block."""
SLOTS = 16
"""Slots of a lane in this controller's view: 512 in all."""
QUOTA = LANES * SLOTS * 3 // 4


def test_a_noisy_job_costs_no_hits_of_a_job_with_a_quota(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.mininet.two_jobs", str(tmp_path), "9594"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
    beside, with_quota, alone = json.loads(ran.stdout.splitlines()[-1])
    assert beside["updates"] == with_quota["updates"] == alone["updates"] == STEPS * KEYS_A_STEP
    # Steps and hot set are the same, so are the updates that the switch has added.
    assert with_quota["keys"] == alone["keys"] > 0.95 * QUOTA
    assert with_quota["in_switch"] == pytest.approx(alone["in_switch"], rel=0.01)
    # Without a quota, jobs that want more share the slots equally.
    assert beside["keys"] < 0.7 * QUOTA and beside["share"] < 0.95 * with_quota["share"]
