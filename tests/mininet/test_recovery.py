"""Real processes are killed in the middle of a run, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mininet.run_topo import record_of, run_topo

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
RECOVERY = '[recovery]\njournal_sync = "never"\nreplay_log = true\n'


@pytest.mark.parametrize("module", ["hotline_agents.ps", "softswitch"])
@pytest.mark.parametrize(
    ("datapath", "kills"),
    [
        ("auto", 1),
        *((datapath, kills) for datapath in ("auto", "sockets") for kills in (2, 3, 4)),
    ],
)
def test_a_killed_server_or_switch_comes_back_and_no_update_is_lost(
    tmp_path: Path, module: str, datapath: str, kills: int
) -> None:
    arms, variables = ["baseline", "offload-proxy"], (f"DATAPATH={datapath}", f"ROUNDS={10 * kills}")
    with run_topo(tmp_path, *variables, tables=RECOVERY, arms=arms) as run:
        for killed in range(kills):
            run.wait_for_parts(f"operations-worker-1-{10 + 12 * killed}.parquet")
            run.kill_restarted(module)
        assert run.wait() == 0, run.errors
    assert run.errors.count("; it is started again") == kills, run.errors
    record = record_of(run.folder)
    accounting = record["accounting"]
    assert sum(accounting["restarts"].values()) == kills
    has_commits = {block["arm"]: block["servers"]["commits"] > 0 for block in record["blocks"]}
    assert has_commits == dict.fromkeys(arms, True)
    assert {"s1", "ps-0", "ps-1", "worker-1"} <= set(record["memory_mb"])
    assert all(20 < mb < 4_000 for mb in record["memory_mb"].values())
    page = (run.folder / "report.html").read_text()
    assert "What durability costs" in page and "Restarted during the run: " in page
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 100_000
