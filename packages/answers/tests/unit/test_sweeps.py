"""Sweeps: results do not depend on the host, finished points are cached, and figures show results."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tomli
from click.testing import Result

from analysis.record import SimulatedArm
from controller.dask_cluster import ClusterError
from experiment.errors import ConfigError
from foundation.checkout import ROOT
from foundation.designs.hotset import BASELINE
from foundation.errors import DataError
from hotline_answers.sweeps.figures import communication, cost, drops, figures_of, training, utilisation
from hotline_answers.sweeps.page import table
from hotline_answers.sweeps.plan import (
    COMPUTE_MS,
    TABLE_2,
    Sweep,
    points_of,
    sweeps,
    vary,
    with_changes,
)
from hotline_answers.sweeps.point import (
    PointCost,
    SweepPoint,
    SweepPointResult,
    SweptArm,
    SweptRun,
    summarize_run,
)
from hotline_simulator import study
from hotline_simulator.config import DDL, SimulationConfig, SimulationError
from hotline_simulator.experiment import quiet_reporter, temporary_run
from hotline_simulator.study import Results, StudyPoint, run_points
from switch_harness.damage import CONTENTS, damage
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions, says
from tests.harness.cli import invoke
from tests.harness.dask import cluster_of
from tests.harness.studies import fake_runs

TINY = """
workers = 2
servers = 1
arms = ["baseline", "offload"]
top_k = 40
rounds = 2
loads = [0.5]
block_ms = 2
discard_ms = 1
block_steps = 4
trace_steps = 40
profile_lanes = 2000

[workload]
parameters = 2000
hot_parameters = 40
hot_share = 0.5
keys_per_step = 50
"""


def tiny(folder: Path) -> Path:
    config = folder / "run.toml"
    config.write_text(TINY)
    return config


def sweep(folder: Path, *options: str) -> Result:
    into = ("--into", folder / "sweeps", "--processes", 1)
    return invoke("answer", "sweep", "--config", tiny(folder), *into, *options)


def point(k: int) -> SweepPoint:
    config = SimulationConfig.model_validate({**tomli.loads(TINY), "top_k": k})
    return SweepPoint(sweep="top_k", label=str(k), x=k, config=config)


def no_progress(done: int, total: int, name: str) -> None:
    pass


# -- points of sweeps


def test_the_clusters_of_the_paper_have_the_sizes_of_its_table() -> None:
    (clusters,) = sweeps(["clusters"])
    found = [(point.label, point.config.workers, point.config.servers) for point in clusters.points]
    assert found == [
        ("S1", 80, 20), ("S2", 120, 30), ("S3", 160, 40), ("S4", 200, 50), ("S5", 240, 60), ("S6", 280, 70),
    ]  # fmt: skip
    assert TABLE_2[0] == (DDL.workers, DDL.servers)
    arms = ("baseline", "proxy", "offload", "offload-proxy")
    assert {point.config.arms for point in clusters.points} == {arms}


def test_the_training_sweep_has_up_to_512_workers_and_at_512_eight_share_a_port() -> None:
    (found,) = sweeps(["training"])
    assert [point.config.workers for point in found.points] == [16, 32, 64, 128, 256, 512]
    assert {point.config.servers for point in found.points} == {20}
    assert {point.config.worker.compute_ns for point in found.points} == {COMPUTE_MS * 1_000_000}
    assert [point.config.network.rack for point in found.points] == [None] * 5 + [8]


def test_every_sweep_has_its_own_points() -> None:
    """The largest points come first; each has its own file."""
    swept = sweeps([])
    names = ["clusters", "training", "top-k", "skew", "bandwidth", "incast", "connections"]
    assert [each.name for each in swept] == names
    points = list(points_of(swept))
    assert len(points) == sum(len(each.points) for each in swept) > 30
    workers = [point.config.workers for point in points]
    assert workers == sorted(workers, reverse=True)
    assert len({point.name for point in points}) == len(points)


def test_impossible_values_are_refused() -> None:
    names = ", ".join(each.name for each in sweeps([]))
    with pytest.raises(SimulationError, match=rf"expected a sweep \({names}\), got 'skwe'"):
        sweeps(["skew", "skwe"])
    with pytest.raises(ConfigError, match=mentions("workload.hot_share", 2, 1)):
        vary(DDL, "workload.hot_share", [0.5, 2])
    with pytest.raises(ConfigError, match=mentions("network.rate", 5, "rate_mbit")):
        vary(DDL, "network.rate", [5])
    with pytest.raises(SimulationError, match=mentions("top_k", 5, 7)):
        vary(DDL, "top_k", [5, 7, 5])
    assert with_changes(DDL, {"network.rate_mbit": 5, "top_k": 7}).network.rate_mbit == 5


# -- simulation


def fake_simulation(monkeypatch: pytest.MonkeyPatch, lost: int = 0) -> list[StudyPoint]:
    """Replace the simulation by fixed results; return a list to which each simulated point is appended."""

    def result_of(point: StudyPoint) -> SweptRun:
        assert isinstance(point, SweepPoint)
        return a_result(lost)

    return fake_runs(monkeypatch, result_of)


@pytest.mark.soak
def test_results_are_the_same_wherever_a_point_is_simulated(tmp_path: Path) -> None:
    points = [point(20), point(40)]
    here = [each.run() for each in points]
    local = run_points(points, tmp_path / "local", None, 1, no_progress)
    with cluster_of(1, tmp_path) as address:
        remote = run_points(points, tmp_path / "away", address, 1, no_progress)
    for each, ours in zip(points, here, strict=True):
        assert ours.result == local.of(each).result == remote.of(each).result
    results = [each.result for each in here]
    assert results[0].arms["offload"] != results[1].arms["offload"] and results[0].rpcs > 100
    assert all((result.sent > 1_000, result.lost) == (True, 0) for result in results)
    assert results[1].arms["offload"].ps_packets_per_step < results[1].arms["baseline"].ps_packets_per_step


def test_the_result_of_a_run_agrees_with_its_logs() -> None:
    config = with_changes(point(40).config, {"workers": 6, "loads": [0.1]})
    with temporary_run(config, None, quiet_reporter()) as made:
        result, blocks = summarize_run(made), made.record.blocks
        operations = pl.read_parquet(made.run / "operations.parquet")
        calls = pl.read_parquet(made.run / "connections.parquet").filter(pl.col("job") == BASELINE.job)
        assert result.rpcs == len(pl.read_parquet(made.run / "rpc.parquet"))
    operations = operations.with_columns(took=pl.col("end_us") - pl.col("start_us"))
    for name, arm in result.arms.items():
        actual = operations.filter(pl.col("arm").cast(pl.String) == name)
        closed, measured = actual.filter(pl.col("round") < 0), actual.filter("measured", pl.col("round") >= 0)
        order = closed["iteration"].unique().sort()
        counted = closed.filter(pl.col("iteration").is_in(order[1:-1].implode()))
        took = {op: counted.filter(pl.col("op") == op)["took"].to_numpy() for op in ("pull", "push", "step")}
        # Logs have whole µs.
        assert arm.capacity == pytest.approx(config.workers * 1e6 / took["step"].mean(), rel=0.01)
        assert arm.step_ms == pytest.approx(took["step"].mean() / 1e3, rel=0.01)
        waited = (took["pull"].sum() + took["push"].sum()) / took["step"].sum()
        assert arm.simulated.communication == pytest.approx(waited, abs=0.01)
        pushes = closed.filter(pl.col("op") == "push")["took"].to_numpy()
        assert arm.closed_push_p99 == pytest.approx(np.quantile(pushes, 0.99), abs=1)
        latencies = {op: measured.filter(pl.col("op") == op)["latency_us"].to_numpy() for op in took}
        for op, mean, p99 in (("pull", arm.pull_mean, arm.pull_p99), ("push", arm.push_mean, arm.push_p99)):
            assert mean == pytest.approx(latencies[op].mean(), abs=1)
            assert p99 == pytest.approx(np.quantile(latencies[op], 0.99, method="nearest"), abs=1)
        arm_blocks = [block for block in blocks if block.arm == name]
        cpu = sum(block.servers.cpu_s for block in arm_blocks) / sum(block.steps for block in arm_blocks)
        assert arm.ps_cpu_us_per_step == pytest.approx(1e6 * cpu)
    begun = [(block.begun_us, block.ended_us) for block in blocks if block.arm == BASELINE.name]
    in_a_block = [(calls["time_us"] >= since) & (calls["time_us"] <= until) for since, until in begun]
    windows = calls.filter(pl.any_horizontal(*in_a_block)).group_by(pl.col("time_us") // 1_000)
    callers = windows.agg(pl.col("worker").n_unique())["worker"]
    baseline = result.arms[BASELINE.name]
    p50, p99 = (np.quantile(callers, q, method="inverted_cdf") for q in (0.5, 0.99))
    assert (baseline.callers_p50, baseline.callers_p99) == (p50, p99) and p50 < p99


def test_the_result_has_loads_of_links_and_cores() -> None:
    """Servers that take a millisecond an RPC; queues that a burst does not fit into."""
    changes = {"hosts.serve_ns": 1_000_000, "network.queue_kb": 1, "network.rate_mbit": 20}
    with temporary_run(with_changes(point(40).config, changes), None, quiet_reporter()) as made:
        arm = summarize_run(made).arms[BASELINE.name].simulated
    assert 0.7 < arm.servers_busy <= 1 and 0.001 < arm.workers_busy < 0.2
    assert 0 < arm.dropped < arm.frames / 2 and arm.lost == arm.marked == 0
    assert arm.retransmissions >= arm.dropped and 0.5 < arm.longest_kb <= 1


def test_finished_work_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points whose settings, code or file have changed are simulated again."""
    points = [point(20), point(40)]
    done = fake_simulation(monkeypatch)
    reported: list[tuple[int, int, str]] = []
    first = run_points(points, tmp_path, None, 1, lambda *progress: reported.append(progress))
    assert reported == [(0, 2, ""), (1, 2, "top_k 20"), (2, 2, "top_k 40")]
    second = run_points(points, tmp_path, None, 1, no_progress)
    assert [second.of(each) for each in points] == [first.of(each) for each in points] and done == points
    (tmp_path / "points" / "top_k" / "20.json").write_text("{}")
    run_points(points, tmp_path, None, 1, no_progress)
    assert done == [*points, points[0]]
    other = points[1].model_copy(update={"config": with_changes(points[1].config, {"seed": 2})})
    run_points([points[0], other], tmp_path, None, 1, no_progress)
    assert done == [*points, points[0], other]
    monkeypatch.setattr(study, "digest_of_code", lambda point: "of other code")
    run_points([points[0]], tmp_path, None, 1, no_progress)
    assert done == [*points, points[0], other, points[0]]


@pytest.mark.parametrize("way", sorted(CONTENTS.keys() - {"without its last byte"}))  # the end of its line
def test_damaged_points_are_simulated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    points = [point(20), point(40)]
    done = fake_simulation(monkeypatch)
    first = run_points(points, tmp_path, None, 1, no_progress)
    files = sorted(file for file in tmp_path.rglob("*") if file.is_file())
    contents = [file.read_bytes() for file in files]
    for file, other in zip(files, reversed(contents), strict=True):
        damage(file, way, other)
    for _ in range(2):
        again = run_points(points, tmp_path, None, 1, no_progress)
        assert [again.of(each) for each in points] == [first.of(each) for each in points]
    assert done == points * 2 and [file.read_bytes() for file in files] == contents


def test_a_folder_that_cannot_be_made_is_an_error_before_anything_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = fake_simulation(monkeypatch)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "file"))):
        run_points([point(20)], tmp_path / "file" / "sweeps", None, 1, no_progress)
    assert done == []


def test_a_missing_cluster_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.dask_cluster._CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(ClusterError, match=mentions("--scheduler", "tcp://127.0.0.1:1")):
        run_points([point(20)], tmp_path, "tcp://127.0.0.1:1", 1, no_progress)


# -- the command


@pytest.mark.soak
def test_a_user_defined_sweep_is_simulated_reported_and_drawn(tmp_path: Path) -> None:
    result = sweep(tmp_path, "--vary", "top_k=20,40", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["top_k"]
    assert {name: each["x"] for name, each in found.items()} == {"20": 20, "40": 40}
    assert found["40"]["result"]["arms"]["offload"]["ps_packets_per_step"] > 0
    assert "2 of 2: top_k " in result.stderr
    page = (tmp_path / "sweeps" / "report.html").read_text()
    assert "What top_k changes" in page
    assert (tmp_path / "sweeps" / "figures" / "sweep-top_k.csv").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--vary", "top_k"), "--vary top_k: expected SETTING=V1,V2,... with numbers"),
        (("--vary", "top_k=5,many"), "--vary top_k=5,many: expected SETTING=V1,V2,... with numbers"),
        (("--vary", "top_k=true"), "--vary top_k=true: expected SETTING=V1,V2,... with numbers"),
        (("--vary", "top_k=0"), "top_k = 0: Input should be greater than or equal to 1"),
        (("--vary", "top_k=5", "skew"), "skew and --vary exclude each other"),
        ((), "--config requires --vary"),
    ],
)
def test_an_unknown_sweep_is_refused(tmp_path: Path, options: tuple[str, ...], complaint: str) -> None:
    result = sweep(tmp_path, *options)
    assert result.exit_code in (1, 2)
    assert complaint in result.output and not (tmp_path / "sweeps").exists()


def test_updates_that_are_lost_fail_and_the_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_simulation(monkeypatch, lost=3)
    result = sweep(tmp_path, "--vary", "top_k=20")
    assert result.exit_code == 1 and says(result.output, "top_k", 20, 3, 2)
    assert (tmp_path / "sweeps" / "report.html").exists()


def alive_in(session: int) -> list[int]:
    """Return the processes of a session, without zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, of, *_ = stat.read_text().rpartition(")")[2].split()
            if int(of) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


@pytest.mark.soak
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = ["--into", str(tmp_path / "s"), "--vary", "rounds=50000", "--processes", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hotline.cli", "answer", "sweep", "--config", str(tiny(tmp_path)), *options],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        wait_for(lambda: any(scratch.glob("hotline-study-*/hotline-*/parts/*.parquet")))
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed.strip().splitlines()[-1]) == (130, "hotline: interrupted")
    assert list(scratch.glob("hotline-*")) == []
    wait_for(lambda: not alive_in(process.pid))


# -- figures


def an_arm(capacity: float, **changes: float) -> SweptArm:
    simulated = {
        "workers_busy": 0.25, "servers_busy": 0.75, "communication": 0.5, "frames": 1_000, "dropped": 10,
        "lost": 0, "marked": 0, "longest_kb": 8.0, "retransmissions": 10,
    }  # fmt: skip
    values = {
        "step_ms": 1.0, "pull_mean": 100.0, "pull_p99": 200.0, "push_mean": 110.0, "push_p99": 220.0,
        "closed_push_p99": 900.0, "rpcs_per_step": 10.0, "ps_packets_per_step": 10.0,
        "ps_cpu_us_per_step": 50.0, "callers_p50": 60.0, "callers_p99": 80.0,
    }  # fmt: skip
    of_arm = {name: value for name, value in changes.items() if name in values}
    of_simulated = {name: value for name, value in changes.items() if name in simulated}
    simulated_arm = SimulatedArm.model_validate({**simulated, **of_simulated})
    return SweptArm(capacity=capacity, simulated=simulated_arm, **{**values, **of_arm})


def a_result(lost: int = 0, **arms: SweptArm) -> SweptRun:
    result = SweepPointResult(
        arms=arms or {"baseline": an_arm(100), "offload": an_arm(150, pull_mean=80, ps_cpu_us_per_step=25)},
        sent=1_000, lost=lost, mismatched_keys=2 if lost else 0, rpcs=2_000, packet_passes=3_000,
        virtual_s=1.5,
    )  # fmt: skip
    cost = PointCost(real_s=0.02, loop_s=0.01)
    return SweptRun(result=result, cost=cost)


def numbers(values: object) -> list[float]:
    found: list[float] = np.asarray(values, dtype=np.float64).tolist()
    return found


def test_training_time_is_plotted_with_the_ideal_scaling_of_16_workers() -> None:
    """The baseline doubles its steps/s only once, where there are eight times as many workers."""
    base = [
        SweepPoint(sweep="training", label=str(n), x=n, config=with_changes(DDL, {"workers": n}))
        for n in (16, 32, 128)
    ]
    found = [a_result(baseline=an_arm(rate), offload=an_arm(2 * rate)) for rate in (1_000, 1_600, 2_000)]
    swept = Sweep("training", "Training", "workers", tuple(base))
    figure = training(swept, found)
    lines = {series.name: numbers(series.y) for series in figure.panels[0].series}
    assert lines["baseline"] == [1_000, 625, 500] and lines["offload"] == [500, 312.5, 250]
    assert lines["ideal"] == [1_000, 500, 125]
    assert figure.facts["baseline", "128"] == 2_000 / 128
    (panel,) = communication(swept, found).panels
    assert numbers(panel.series[0].y) == [0.5] * 3


def test_figures_show_the_results_of_points() -> None:
    clusters = sweeps(["clusters"])[0]
    clusters = Sweep(clusters.name, clusters.title, clusters.axis, clusters.points[:2])
    found = [
        a_result(baseline=an_arm(100, workers_busy=busy), offload=an_arm(100, dropped=30))
        for busy in (0.5, 0.4)
    ]
    busy = {panel.title: panel.series for panel in utilisation(clusters, found).panels}
    assert numbers(busy["workers"][0].y) == [0.5, 0.4] and numbers(busy["workers"][0].x) == [80, 120]
    assert numbers(busy["servers"][1].y) == [0.75, 0.75]
    spent = {series.name: numbers(series.y) for series in cost(clusters, found).panels[0].series}
    assert spent == {"event loop": [5, 5], "whole run": [10, 10]}
    assert numbers(drops(clusters, found).panels[0].series[1].y) == [0.03, 0.03]
    results = Results({point.name: done for point, done in zip(clusters.points, found, strict=True)})
    assert [figure.name for figure in figures_of([clusters], results)] == [
        "sweep-clusters", "fig-08", "fig-07b", "cost",
    ]  # fmt: skip


def test_the_table_compares_with_the_baseline() -> None:
    point = SweepPoint(sweep="clusters", label="S1", x=80, config=DDL)
    made = table(Sweep("clusters", "Clusters", "workers", (point,)), Results({point.name: a_result()}))
    (row,) = made.texts()
    assert len(made.columns) == len(row)
    assert (made.columns[3], made.columns[6], made.columns[8]) == (
        "steps/s: offload", "pull: offload", "servers' CPU: offload",
    )  # fmt: skip
    assert row == ["S1", "100", "–", "+50 %", "–", "–", "-20 %", "–", "-50 %", "2,000", "1,000 sent, 0 lost"]
