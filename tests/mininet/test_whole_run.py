"""One successful run: the files of its folder, and its output."""

from __future__ import annotations

import polars as pl
import pytest

from foundation.logs.check import check
from foundation.logs.columns import LOGS
from softswitch.kernel.probe import probe
from tests.harness.arms import MEASURED as ARMS
from tests.mininet.run_topo import (
    FEWER_KEYS,
    Run,
    finished_run,
    record_of,
    rpcs_to_servers,
    summary_of,
)

pytestmark = pytest.mark.mininet


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that has ended well, with the kernel datapath where available, and captured packets."""
    return finished_run(tmp_path_factory.mktemp("whole"), "PCAP=1", small=FEWER_KEYS, block_ms=200)


def test_a_run_leaves_a_whole_run_folder(whole_run: Run) -> None:
    folder = whole_run.folder
    for log, schema in LOGS.items():
        assert pl.read_parquet_schema(folder / f"{log}.parquet") == schema
    rows = check(folder)
    assert set(rows) == {f"{log}.parquet" for log in LOGS} and min(rows.values()) > 0
    assert len(pl.read_parquet(folder / "hotset.parquet")) == FEWER_KEYS["top_k"]
    assert (folder / "report.html").stat().st_size > 10_000
    assert not (folder / "parts").exists()
    summary = summary_of(folder)
    updates = summary["updates"]
    assert (updates["lost"], updates["unknown"], updates["mismatched_keys"]) == (0, 0, 0)
    assert summary["overflows"] == 0
    assert updates["sent"] == updates["applied"] > 100_000
    collected = int(pl.read_parquet(folder / "updates.parquet")["updates"].sum())
    assert (updates["collected"], updates["uncollected"], summary["dropped_rows"]) == (collected, 0, 0)
    assert 0.05 < summary["hot_update_share"] < 0.95
    assert set(summary["arms"]) == set(ARMS)
    assert rpcs_to_servers(folder)["offload"] < rpcs_to_servers(folder)["baseline"]
    counted = record_of(folder)["switch"]
    assert len(counted["ports"]) == 2 + 2 + 1  # workers, servers, CPU
    assert all(min(port["rx"], port["tx"]) > 0 for port in counted["ports"].values())
    assert (counted["no_such_port"], counted["lost_notices"], counted["lost_messages"]) == (0, 0, 0)
    assert "report: " in whole_run.output


def test_every_arm_replays_the_same_steps(whole_run: Run) -> None:
    operations = pl.read_parquet(whole_run.folder / "operations.parquet")
    measured = operations.filter(pl.col("round") >= 0)
    steps = (
        measured.filter(pl.col("op") == "step")
        .select("arm", "round", "load", "worker", "iteration")
        .unique()  # a block that was disturbed was run again
        .sort(pl.all())
    )
    by_arm = [steps.filter(pl.col("arm") == arm).drop("arm") for arm in ARMS]
    assert all(each.equals(by_arm[0]) for each in by_arm)
    profiled = operations.filter(pl.col("arm") == "profile")
    assert set(profiled["iteration"]).isdisjoint(measured["iteration"])


def test_in_the_kernel_the_agents_cpu_time_contains_the_switch(whole_run: Run) -> None:
    if (unable := probe()) is not None:
        pytest.skip(f"the kernel cannot be the datapath: {unable}")
    record, summary = record_of(whole_run.folder), summary_of(whole_run.folder)
    assert record["datapath"] == "kernel"
    for block in record["blocks"]:
        assert 0 < block["program_s"]["workers"] < block["worker_cpu_s"]
        assert 0 < block["program_s"]["servers"] < block["servers"]["cpu_s"]
    share = summary["program_share"]
    assert 0 < share["servers"] < 1 and 0 < share["workers"] < 1
    counted = sum(port["program_ns"] for port in record["switch"]["ports"].values()) / 1e9
    blocks = [block["program_s"] for block in record["blocks"] + record["repeated_blocks"]]
    assert sum(block["workers"] + block["servers"] for block in blocks) < counted
    page = " ".join((whole_run.folder / "report.html").read_text().split())
    assert f"{share['workers']:.1%} of the workers&#39;" in page


def test_captures_hold_the_rpcs(whole_run: Run) -> None:
    captures = sorted((whole_run.folder / "pcap").glob("s1-eth*.pcap"))
    assert [file.name for file in captures] == [f"s1-eth{port}.pcap" for port in (1, 2, 3, 4)]
    assert all(file.stat().st_size > 10_000 for file in captures)
