"""Real runs whose servers optimise and collect gradients from the switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.mininet.run_topo import finished_run, record_of, run_topo
from tests.mininet.test_recovery import RECOVERY

pytestmark = pytest.mark.mininet
ARMS = ["collect-baseline", "collect"]


@pytest.mark.soak
def test_adagrad_with_the_hot_set_in_the_switch(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "OPTIMISER=adagrad", arms=ARMS)
    record = record_of(run.folder)
    check_staleness(record["staleness"]["collect"], run.output)
    accounting = record["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000


@pytest.mark.parametrize(
    "killed",
    [
        ("hosts.ps", "softswitch"),
        pytest.param(("hosts.ps",), marks=pytest.mark.soak),
        pytest.param(("softswitch",), marks=pytest.mark.soak),
    ],
    ids=" and ".join,
)
def test_killed_servers_and_switches_lose_no_gradient(tmp_path: Path, killed: Sequence[str]) -> None:
    with run_topo(tmp_path, "OPTIMISER=adagrad", "ROUNDS=10", tables=RECOVERY, arms=ARMS) as run:
        for number, module in enumerate(killed, start=1):
            run.wait_for_parts(f"operations-worker-1-{8 * number}.parquet")
            run.kill_restarted(module)
        assert run.wait() == 0, run.errors
    assert run.errors.count("; it is started again") == len(killed), run.errors
    record = record_of(run.folder)
    check_staleness(record["staleness"]["collect"], run.output)
    accounting = record["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert sum(accounting["restarts"].values()) == len(killed)
    assert accounting["sent"] == accounting["applied"] > 100_000


def check_staleness(staleness: Mapping[str, float], output: str) -> None:
    assert staleness["copies"] > 1_000 and 0 < staleness["p50_ms"] <= staleness["p99_ms"]
    assert staleness["p99_ms"] <= staleness["oldest_ms"] and staleness["bound_ms"] == 50
    assert "Values in the switch were" in output
