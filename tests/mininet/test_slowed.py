"""Runs whose processes have a fraction of the time take longer, and end as others do."""

from __future__ import annotations

import subprocess
from itertools import chain
from pathlib import Path

import pytest

from foundation.checkout import ROOT
from switch_harness.slowed import limited_cpu, slowed
from tests.mininet import run_topo as harness
from tests.mininet.run_topo import FEWER_KEYS, record_of, run_topo

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
OURS = ("softswitch", "hotline_agents.fork_server", "hotline_agents.ps", "hotline_agents.worker")
"""Modules of the processes that are slowed: not Mininet's shells, which fail."""
WORKERS = int(str(FEWER_KEYS["workers"]))


def test_a_run_whose_start_is_slowed_fiftyfold_finishes_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its switch and its agents take minutes to start; the runner and the rest of the run have their time."""
    monkeypatch.setattr(harness, "PATIENCE_S", 1_800.0)
    with run_topo(
        tmp_path, "ROUNDS=2", small=FEWER_KEYS, arms=["baseline", "offload"], simulate_dedicated_switch=False
    ) as run:
        with slowed(lambda: chain.from_iterable(map(run.agents, OURS)), factor=50):
            run.wait_for(lambda: len(run.agents("hotline_agents.worker")) == WORKERS)
        assert run.wait() == 0, run.errors
    accounting = record_of(run.folder)["accounting"]
    assert (accounting["lost"], accounting["mismatched_keys"], accounting["unknown"]) == (0, 0, 0)


def test_set_up_and_a_default_run_finish_with_a_tenth_of_a_core(tmp_path: Path) -> None:
    """Half an hour, of which set-up takes two thirds; pip's packages come from where set-up has them from."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    with limited_cpu(0.1) as prefix:
        for target in ("setup", "run-topo"):
            done = subprocess.run(
                [*prefix, "make", "-C", clone, target], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
    accounting = record_of(clone / "runs" / "latest")["accounting"]
    assert (accounting["lost"], accounting["mismatched_keys"], accounting["unknown"]) == (0, 0, 0)
