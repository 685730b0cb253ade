"""Real runs whose servers optimise and collect gradients from the switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.wording import says
from tests.mininet.run_topo import check_staleness, finished_run, record_of, run_topo
from tests.mininet.test_recovery import RECOVERY

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
ARMS = ["collect-baseline", "collect"]


def test_adagrad_with_the_hot_set_in_the_switch(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "OPTIMISER=adagrad", arms=ARMS)
    record = record_of(run.folder)
    check_staleness(record["staleness"]["collect"])
    assert says(run.output, "Values", "switch")
    accounting = record["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000


@pytest.mark.parametrize("module", ["hosts.ps", "softswitch"])
def test_a_killed_server_or_switch_loses_no_gradient(tmp_path: Path, module: str) -> None:
    with run_topo(tmp_path, "OPTIMISER=adagrad", "ROUNDS=10", tables=RECOVERY, arms=ARMS) as run:
        run.wait_for_parts("operations-worker-1-8.parquet")
        run.kill_restarted(module)
        assert run.wait() == 0, run.errors
    assert run.errors.count("; it is started again") == 1, run.errors
    record = record_of(run.folder)
    check_staleness(record["staleness"]["collect"])
    assert says(run.output, "Values", "switch")
    accounting = record["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert sum(accounting["restarts"].values()) == 1
    assert accounting["sent"] == accounting["applied"] > 100_000
