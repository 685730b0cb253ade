"""A hot set follows the updates of Scapy's agents, whose keys move while they push."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
TIMEOUT_S = 300
KEYS_A_STEP, HOT = 30, 60
BLOCKS, STEPS = 4, 10
"""Number of blocks, and of each worker's steps in a block."""


def test_keys_move_under_load_and_no_update_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.mininet.following_scapy", str(tmp_path), "9597"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout.splitlines()[-1])
    first, *others = result["periods"]
    assert len(others) == BLOCKS - 1
    assert first["keys_in"] == first["keys"] == HOT
    # The popular keys change at half: some leave, others arrive.
    assert sum(period["keys_out"] for period in others) > HOT // 4
    assert all(period["in_switch"] > 0 for period in others)
    accounting = result["accounting"]
    assert accounting["sent"] == 2 * BLOCKS * STEPS * KEYS_A_STEP
    assert {name: accounting[name] for name in ("lost", "mismatched_keys", "overflows")} == {
        "lost": 0, "mismatched_keys": 0, "overflows": 0,
    }  # fmt: skip
