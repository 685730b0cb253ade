"""Real runs whose servers optimise and collect gradients from the switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.wording import says
from tests.mininet.run_topo import check_staleness, finished_run, record_of, run_topo, summary_of
from tests.mininet.test_recovery import RECOVERY
from tests.mininet.test_script import SMALL

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
ARMS = ["collect-baseline", "collect"]


@pytest.mark.parametrize("tables", ["one", "criteo"])
def test_adagrad_with_the_hot_set_in_the_switch(tmp_path: Path, tables: str) -> None:
    run = finished_run(tmp_path, "OPTIMISER=adagrad", f"TABLES={tables}", arms=ARMS)
    record = record_of(run.folder)
    assert record["workload"]["dims"] == ([1] if tables == "one" else [1, 4, 8, 16, 32, 64])
    check_staleness(record["staleness"]["collect"])
    assert says(run.output, "Values", "switch")
    accounting = record["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000


@pytest.mark.parametrize("module", ["hotline_agents.ps", "softswitch"])
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


SCRIPT = """
import numpy as np
import hotline

ROWS, KEYS = 600, 100
DIMS = {"bias": 1, "users": 16}
with hotline.Worker({name: (ROWS, dim) for name, dim in DIMS.items()}, optimiser="adagrad(lr=0.1)") as kv:
    random = np.random.default_rng([kv.seed, kv.rank])
    popular = 1 / np.arange(1, ROWS + 1)
    rows = {name: np.empty((KEYS, dim), np.float32) for name, dim in DIMS.items()}
    for step in range(1_000_000):
        keys = random.choice(ROWS, KEYS, replace=False, p=popular / popular.sum())
        for name, values in rows.items():
            kv.wait(kv.pull(keys, values, name))
            kv.push(keys, values - 1, name)
        if step % 10 == 9:
            kv.report(loss=float(sum(((values - 1) ** 2).mean() for values in rows.values())))
"""


def test_a_script_with_rows_of_1_and_16_values_trains_and_loses_no_gradient(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = finished_run(tmp_path, "DESIGN=collect", small=SMALL, script=str(script), arms=ARMS)
    record, summary = record_of(run.folder), summary_of(run.folder)
    assert record["workload"]["dims"] == summary["dims"] == [1, 16]
    check_staleness(record["staleness"]["collect"])
    accounting = record["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000
    assert summary["hot_update_share"] > 0.3
    for arm in ARMS:
        assert 0 < summary["last_reported"][arm] < 2  # it was 2 at the beginning
