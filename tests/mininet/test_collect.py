"""Real runs whose servers optimise and collect gradients from the switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mininet.run_topo import finished_run, record_of, run_topo
from tests.mininet.test_recovery import RECOVERY

pytestmark = pytest.mark.mininet
ARMS = ["collect-baseline", "collect"]


def test_adagrad_with_the_hot_set_in_the_switch(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "OPTIMISER=adagrad", arms=ARMS)
    record = record_of(run.folder)
    accounting, staleness = record["accounting"], record["staleness"]["collect"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000
    assert staleness["copies"] > 1_000 and 0 < staleness["p50_ms"] <= staleness["p99_ms"]
    assert staleness["p99_ms"] <= staleness["oldest_ms"] and staleness["bound_ms"] == 50
    assert "Values in the switch were" in run.output


@pytest.mark.parametrize("module", ["hosts.ps", "softswitch"])
def test_a_killed_server_or_switch_loses_no_gradient(tmp_path: Path, module: str) -> None:
    with run_topo(tmp_path, "OPTIMISER=adagrad", "ROUNDS=10", tables=RECOVERY, arms=ARMS) as run:
        run.wait_for_parts("operations-worker-1-8.parquet")
        run.kill_restarted(module)
        assert run.wait() == 0, run.errors
    assert run.errors.count("; it is started again") == 1, run.errors
    accounting = record_of(run.folder)["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert sum(accounting["restarts"].values()) == 1 and accounting["sent"] > 100_000
