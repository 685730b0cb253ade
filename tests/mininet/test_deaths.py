"""Workers of a run are killed, and others take their ranks; each push is added once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli

from foundation.checkout import ROOT
from hosts.in_flight import file_name
from tests.mininet.run_topo import FEWER_KEYS, finished_run, record_of, run_topo
from tests.mininet.test_recovery import RECOVERY

pytestmark = pytest.mark.mininet
EXAMPLE = ROOT / "examples/deaths.toml"


def exact(record: dict[str, Any]) -> bool:
    accounting = record["accounting"]
    return (accounting["lost"], accounting["mismatched_keys"]) == (0, 0) and accounting["sent"] > 10_000


def changes(record: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter((each["worker"], each["change"]) for each in record["worker_changes"])


@pytest.mark.soak
def test_of_eight_workers_three_die_and_two_come_back(tmp_path: Path) -> None:
    settings = tomli.loads(EXAMPLE.read_text())
    run = finished_run(tmp_path, small={**FEWER_KEYS, **settings})
    record = record_of(run.folder)
    assert exact(record)
    assert changes(record) == {
        **{(f"worker-{number}", "died"): 1 for number in (3, 5, 8)},
        **{(f"worker-{number}", "joined"): 1 for number in (3, 5)},
    }
    unknown = record["accounting"]["unknown"]  # of worker 8, which nobody succeeds
    assert ("was added once or not at all" in run.output) == bool(unknown)
    page = (run.folder / "report.html").read_text()
    assert "Workers that died: worker-3 in round 1, worker-5 in round 2, worker-8 in round 4." in page
    assert "Workers that took the rank of a dead one: worker-3 in round 3" in page


@pytest.mark.parametrize("codec", ["fast", pytest.param("scapy", marks=pytest.mark.soak)])
def test_a_successor_ends_the_push_of_a_killed_worker(tmp_path: Path, codec: str) -> None:
    """All of its lanes are known in the end: each was added once."""
    run = finished_run(
        tmp_path, f"CODEC={codec}", small={**FEWER_KEYS, "arms": ["baseline", "offload-proxy"], "rounds": 1},
        after_death="wait", kill=["1@1"],
    )  # fmt: skip
    record = record_of(run.folder)
    assert exact(record) and record["accounting"]["unknown"] == 0
    assert changes(record) == {("worker-1", "died"): 1, ("worker-1", "joined"): 1}
    assert "workers" in {name for block in record["repeated_blocks"] for name in block["disturbed"]}
    assert not (run.folder / "parts" / file_name(1, 1)).exists()


@pytest.mark.soak
def test_successors_end_pushes_beside_replay_logs_and_a_killed_switch(tmp_path: Path) -> None:
    """The logs of dead workers and of their successors restore what the switch had."""
    arms = ["baseline", "offload-proxy"]
    with run_topo(
        tmp_path, "ROUNDS=16", tables=RECOVERY, small=FEWER_KEYS, arms=arms, after_death="wait",
        kill=["1@1", "2@3", "1@13"],
    ) as run:  # fmt: skip
        run.wait_for_parts("operations-worker-1-20.parquet")
        run.kill_restarted("softswitch")
        assert run.wait() == 0, run.errors
    record = record_of(run.folder)
    assert exact(record) and record["accounting"]["unknown"] == 0
    assert record["accounting"]["restarts"] == {"s1": 1}
    assert changes(record) == {
        **{("worker-1", change): 2 for change in ("died", "joined")},
        **{("worker-2", change): 1 for change in ("died", "joined")},
    }
