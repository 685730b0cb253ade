"""A hot set is replaced by the command line while workers train on a bad network, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.harness.arms import JOBS
from tests.harness.cli import invoke, json_of
from tests.mininet.run_topo import Run, run_topo, summary_of, update_log

pytestmark = pytest.mark.mininet

FAULTS = "[faults]\nloss = 0.05\nduplication = 0.05\nreordering = 0.05\n"
OFFLOAD = str(JOBS["offload"])


def hotline(*words: object) -> None:
    """Run a command in this process: on a busy machine a separate one would take as long as the run."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output


def wait_until_measuring(run: Run) -> None:
    """Wait for some blocks of every arm."""
    run.wait_for(lambda: len(list(run.runs.glob("*/parts/operations-worker-1-*.parquet"))) >= 10)


@pytest.mark.soak
def test_a_hot_set_is_replaced_under_load_on_a_bad_network(tmp_path: Path) -> None:
    log = f"DATA={update_log(tmp_path, hot=100, others=100)}"
    with run_topo(tmp_path, log, "ROUNDS=4", "TOP_K=100", tables=FAULTS, profile_lanes=5000) as run:
        wait_until_measuring(run)
        [old] = run.runs.glob("*/hotset.parquet")
        keys = pl.read_parquet(old)["key"].to_list()
        other = tmp_path / "other.csv"
        # Half of the old set, and as many keys that were cold.
        wanted = keys[:50] + [key for key in range(1000, 6000) if key not in keys][:50]
        other.write_text("key,updates\n" + "".join(f"{key},{10 + i}\n" for i, key in enumerate(wanted)))
        replaced = tmp_path / "other.parquet"
        hotline("hotset", "build", other, "--top-k", len(wanted), "-o", replaced)
        of_job = ["--switch", f"127.0.0.1:{run.port}", "--job", OFFLOAD]
        hotline("load", replaced, *of_job)
        assert {row["key"] for row in json_of("registers", *of_job)} == set(wanted)
        assert run.wait() == 0, run.errors
    summary = summary_of(run.folder)
    updates = summary["updates"]
    assert (updates["lost"], updates["unknown"], updates["mismatched_keys"]) == (0, 0, 0)
    assert updates["sent"] == updates["applied"]
    assert summary["overflows"] == 0
    assert (pl.read_parquet(run.folder / "rpc.parquet")["attempts"] > 1).any()
