"""The main job end to end: the files of its run folder, and its error messages."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from experiment.defaults import CODEC_DEFAULTS
from foundation.logs.merge import finish_merge
from switch_harness.wording import says
from tests.harness.arms import JOBS
from tests.mininet.run_topo import (
    FEWER_KEYS,
    Run,
    command_line,
    finished_run,
    record_of,
    rpcs_to_servers,
    run_topo,
    small_disk,
    summary_of,
    update_log,
)
from topologies.run_lock import find_marked_processes
from topologies.signals import _CANCEL_TIMEOUT_S

pytestmark = pytest.mark.mininet
SMALL_SCAPY: dict[str, object] = {
    "workers": 2, "top_k": 10, "rounds": 1, "loads": [0.5], "block_ms": 100, "discard_ms": 0,
    "block_steps": 10, "trace_steps": 100, "profile_lanes": 400, "calibration_s": 0.1, "empty_rpcs": 0,
    "budget_s": 1.0, "arms": ["baseline", "offload"], "simulate_dedicated_switch": False,
}  # fmt: skip


def test_ctrl_c_leaves_readable_logs_and_nothing_else(tmp_path: Path) -> None:
    arms = ["baseline", "offload-proxy"]
    with run_topo(tmp_path, "ROUNDS=200", arms=arms, small={**FEWER_KEYS, "workers": 1}, servers=1) as run:
        run.wait_for_parts("operations-worker-1-*.parquet")
        begun = time.monotonic()
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.wait() == 130
        took_s = time.monotonic() - begun
    assert "interrupted" in run.errors and run.folder.name in run.errors
    error = record_of(run.folder)["error"]
    # A run that takes longer is ended before it writes its record.
    assert error == "interrupted" or (error == "it was killed" and took_s > _CANCEL_TIMEOUT_S)
    finish_merge(run.folder)  # on a slow machine there was no time for it
    assert not pl.read_parquet(run.folder / "operations.parquet").is_empty()


@pytest.mark.soak
def test_ctrl_c_while_the_hot_set_is_loading_ends_at_once(tmp_path: Path) -> None:
    """Workers cannot continue then, as the keys that they need are being moved."""
    with run_topo(tmp_path, "TOP_K=20000") as run:
        run.wait_for(lambda: any(run.runs.glob("*/hotset.parquet")))
        os.killpg(run.process.pid, signal.SIGINT)
        begun = time.monotonic()
        assert run.wait() == 130
    # Three seconds on a quiet machine.
    assert time.monotonic() - begun < 30
    assert "hotline: stopping …" in run.errors
    assert not (run.folder / "trace").exists()
    finish_merge(run.folder)
    assert not pl.read_parquet(run.folder / "operations.parquet").is_empty()


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    with small_disk(tmp_path / "full", "1m") as full:
        run = finished_run(tmp_path, code=1, runs=str(full), small=FEWER_KEYS)
    last = run.errors.splitlines()[-1]
    assert says(last, "/trace", "trace") and says(last, "disk", "full")


@pytest.mark.soak
def test_a_killed_worker_ends_the_run_and_its_unanswered_pushes_are_unknown(tmp_path: Path) -> None:
    with run_topo(tmp_path, "ROUNDS=200") as run:
        run.wait_for_parts("operations-worker-1-1?.parquet")
        os.kill(run.agents("hotline_agents.worker")[0], signal.SIGKILL)
        assert run.wait() == 1
    assert says(run.errors, "worker-1", "-9")
    accounting = record_of(run.folder)["accounting"]
    assert (accounting["lost"], accounting["mismatched_keys"]) == (0, 0)
    assert not pl.read_parquet(run.folder / "rpc.parquet").is_empty()


@pytest.mark.soak
@pytest.mark.parametrize("module", ["hotline_agents.ps", "softswitch"])
def test_a_killed_server_or_switch_ends_the_run(tmp_path: Path, module: str) -> None:
    with run_topo(tmp_path, "ROUNDS=200") as run:
        run.wait_for_parts("operations-worker-1-*.parquet")
        os.kill(run.agents(module)[0], signal.SIGKILL)
        assert run.wait() == 1
    assert "ended with code -9" in run.errors
    assert not pl.read_parquet(run.folder / "operations.parquet").is_empty()


def kill_runner(tmp_path: Path) -> Run:
    """Kill a runner in its first block; its switch and its logs are left behind."""
    with run_topo(tmp_path) as run:
        run.wait_for_parts("operations-worker-1-*.parquet")
        os.kill(run.process.pid, signal.SIGKILL)
        run.wait()
    assert run.agents("softswitch")
    return run


@pytest.mark.soak
def test_remains_of_a_killed_runner_are_removed_by_the_next_run(tmp_path: Path) -> None:
    run = kill_runner(tmp_path)
    parts = next(run.runs.glob("*/parts"))
    assert not pl.read_parquet(sorted(parts.glob("operations-*.parquet"))[0]).is_empty()
    again = finished_run(tmp_path, "ROUNDS=1", p4runtime_port=run.port)
    assert "killed run" in again.errors
    assert not parts.exists() and (parts.parent / "operations.parquet").exists()


@pytest.mark.soak
def test_cleanup_removes_the_remains_of_a_killed_runner(tmp_path: Path) -> None:
    folder = next(kill_runner(tmp_path).runs.glob("*/parts")).parent
    cleanup = [sys.executable, "-m", "topologies.cleanup"]
    done = subprocess.run(cleanup, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("removed ")
    assert not (folder / "parts").exists() and not (folder / "trace").exists()
    assert not pl.read_parquet(folder / "operations.parquet").is_empty()
    assert record_of(folder)["error"] == "it was killed"
    # The fixture of every test here asserts that nothing is left on the machine.
    assert subprocess.run(cleanup, check=True, capture_output=True, text=True).stdout == ""


@pytest.mark.soak
def test_mininets_command_line_opens_after_the_report_and_gets_ctrl_c(tmp_path: Path) -> None:
    def sleeping() -> bool:
        return any(command_line(pid).startswith("sleep\0") for pid in find_marked_processes())

    with run_topo(tmp_path, "CLI=1", "ROUNDS=1", stdin=subprocess.PIPE) as run:
        assert run.process.stdin is not None
        run.wait_for(lambda: (run.runs / "latest" / "report.html").exists())
        assert len(run.agents("hotline_agents.worker")) == 2
        run.process.stdin.write("w1 ping -c 1 p1\nw1 sleep 1000\n")
        run.process.stdin.flush()
        run.wait_for(sleeping)
        os.killpg(run.process.pid, signal.SIGINT)
        run.wait_for(lambda: not sleeping())
        run.process.stdin.write("exit\n")
        assert run.wait() == 0, run.errors
    assert "mininet> " in run.output
    assert "1 received" in run.errors
    assert run.output.count("report: ") == 1
    assert record_of(run.folder)["error"] is None
    assert not (run.folder / "parts").exists()


@pytest.mark.soak
def test_sigterm_ends_the_command_line(tmp_path: Path) -> None:
    with run_topo(tmp_path, "CLI=1", "ROUNDS=1", stdin=subprocess.PIPE) as run:
        run.wait_for(lambda: (run.runs / "latest" / "report.html").exists())
        os.killpg(run.process.pid, signal.SIGTERM)
        assert run.wait() == 130, run.errors
    assert "Traceback" not in run.errors


@pytest.mark.parametrize("codec", ["mixed", pytest.param("scapy", marks=pytest.mark.soak)])
def test_a_small_run_on_scapy_agents_loses_nothing_and_uses_the_switch(tmp_path: Path, codec: str) -> None:
    """The hot keys of half of a step's lanes are in the switch, which then answers a part of the RPCs."""
    log = f"DATA={update_log(tmp_path, hot=10, others=10)}"
    run = finished_run(tmp_path, log, f"CODEC={codec}", small=SMALL_SCAPY)
    record, summary = record_of(run.folder), summary_of(run.folder)
    assert record["config"]["codec"] == codec
    updates = summary["updates"]
    assert updates["sent"] == updates["applied"] > 1_000
    assert updates["lost"] == updates["unknown"] == updates["mismatched_keys"] == summary["overflows"] == 0
    assert summary["hot_update_share"] == pytest.approx(1 / 2, abs=0.05)
    ports = record["switch"]["ports"].values()
    assert len(ports) == 2 + 2 + 1 and min(port[way] for port in ports for way in ("rx", "tx")) > 0
    served = pl.read_parquet(run.folder / "rpc.parquet").group_by("arm").agg(pl.col("served").sum())
    lanes = {str(arm): int(number) for arm, number in served.rows()}
    assert lanes["offload"] > 0 and lanes["baseline"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("design", ["hotset", "none"])
def test_scapy_agents_carry_a_whole_run_with_their_default_sizes(tmp_path: Path, design: str) -> None:
    """It takes three minutes on two idle cores; the test allows twice as much."""
    begun = time.monotonic()
    run = finished_run(tmp_path, "CODEC=scapy", f"DESIGN={design}", small={})
    assert time.monotonic() - begun < 2 * 180
    record, summary = record_of(run.folder), summary_of(run.folder)
    assert record["config"]["top_k"] == CODEC_DEFAULTS["scapy"]["top_k"]
    assert summary["updates"]["sent"] == summary["updates"]["applied"] > 20_000
    assert summary["updates"]["lost"] == summary["overflows"] == 0
    assert summary["loads"]["0.5"]["rounds"] == summary["loads"]["0.8"]["rounds"] >= 1
    assert set(summary["agents"]) == {"fast", "scapy"}
    for cost in ("worker_us", "server_us"):
        assert summary["agents"]["scapy"][cost] > 50 * summary["agents"]["fast"][cost]
    for reported in (run.output, (run.folder / "report.html").read_text()):
        assert re.search(r"\d times slower", " ".join(reported.split()))
    if design == "hotset":
        assert 0.4 < summary["hot_update_share"] < 0.6
        assert rpcs_to_servers(run.folder)["offload"] < rpcs_to_servers(run.folder)["baseline"]


@pytest.mark.bmv2
def test_a_run_on_bmv2_loses_nothing_and_offload_saves_rpcs_to_servers(tmp_path: Path) -> None:
    variables, arms = ("TARGET=bmv2", "ROUNDS=1", "TOP_K=200"), ["baseline", "offload"]
    # BMv2 takes some ms for each of a step's frames.
    few_frames = {"workload.keys_per_step": 200, "profile_lanes": 10_000}
    small = {**FEWER_KEYS, "workers": 1, "servers": 1, **few_frames}
    run = finished_run(tmp_path, *variables, arms=arms, small=small)
    summary = summary_of(run.folder)
    assert summary["target"] == "bmv2"
    assert summary["updates"]["sent"] == summary["updates"]["applied"] > 10_000
    assert summary["updates"]["lost"] == summary["overflows"] == 0
    assert rpcs_to_servers(run.folder)["offload"] < rpcs_to_servers(run.folder)["baseline"]


@pytest.mark.soak
def test_the_built_in_workload_keeps_its_promises(tmp_path: Path) -> None:
    variables = ("TOP_K=20000", "ROUNDS=1")
    run = finished_run(tmp_path, *variables, workers=4, profile_lanes=1_000_000, trace_steps=600)
    updates = pl.read_parquet(run.folder / "updates.parquet").filter(pl.col("job") == JOBS["profile"])
    assert updates["updates"].sum() >= 1_000_000
    assert len(pl.read_parquet(run.folder / "hotset.parquet")) == 20_000
    summary = summary_of(run.folder)
    assert summary["hot_update_share"] >= 0.45
    assert summary["updates"]["lost"] == summary["updates"]["unknown"] == summary["overflows"] == 0
    assert rpcs_to_servers(run.folder)["offload"] <= 0.6 * rpcs_to_servers(run.folder)["baseline"]


@pytest.mark.soak
def test_a_run_trains_on_a_training_set(tmp_path: Path) -> None:
    chance = random.Random(1)
    lines = []
    for _ in range(400):
        features = sorted({*range(10), *chance.sample(range(1000, 5000), 10)})
        lines.append(" ".join([str(chance.randrange(2)), *(f"{index}:1" for index in features)]))
    file = tmp_path / "it's.svm"
    file.write_text("\n".join(lines) + "\n")
    variables = (f"DATA={file}", "TOP_K=10", "ROUNDS=1")
    run = finished_run(tmp_path, *variables, samples_per_step=10, profile_lanes=5000)
    summary = summary_of(run.folder)
    assert summary["hot_update_share"] == pytest.approx(10 / 110, abs=0.02)
    assert summary["arms"]["baseline"]["loss"] > 0
    assert summary["updates"]["lost"] == summary["overflows"] == 0


@pytest.mark.soak
def test_an_update_log_is_replayed(tmp_path: Path) -> None:
    rule = "controller.hotset.selection:TopKRule"
    variables = (f"DATA={update_log(tmp_path)}", "TOP_K=20", f"RULE={rule}", "ROUNDS=1", "DATAPATH=sockets")
    run = finished_run(tmp_path, *variables, profile_lanes=5000)
    summary, record = summary_of(run.folder), record_of(run.folder)
    assert (record["datapath"], record["config"]["rule"]) == ("sockets", rule)
    assert summary["hot_update_share"] == pytest.approx(1 / 3, abs=0.02)
    assert summary["arms"]["baseline"]["loss"] is None
    assert summary["updates"]["lost"] == 0


@pytest.mark.soak
def test_a_second_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with run_topo(tmp_path, "ROUNDS=200") as run:
        run.wait_for_parts("operations-worker-1-*.parquet")
        second = finished_run(tmp_path / "second", code=1)
        assert says(second.errors, run.process.pid, run.runs)
        os.killpg(run.process.pid, signal.SIGTERM)
        assert run.wait() == 130
