"""The replay of a fixed top-k predicts the hits of a simulated run with the real program and agents."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from hosts.workload.generator import Shape
from hotline_policies.generated import LogSpec, write_parts
from tests.harness.cli import invoke, json_of

CONFIG = """
data = "{log}"
workers = 3
servers = 2
top_k = 400
rounds = 6
loads = [0.5]
arms = ["baseline", "offload"]
block_ms = 2
discard_ms = 1
block_steps = 30
calibration_s = 0.005
profile_lanes = 60000
runs = "{runs}"

[network]
rate_mbit = 1000
"""
TOLERANCE = 0.03


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize(
    ("skew", "seed"),
    [(0.5, 2), *(pytest.param(*each, marks=pytest.mark.soak) for each in ((0.3, 1), (0.7, 3)))],
)
def test_a_run_has_the_predicted_hit_share(tmp_path: Path, skew: float, seed: int) -> None:
    shape = Shape("small", 20_000, 400, skew, 200, 4)
    parts = write_parts(LogSpec(shape, 1_500, workers=3, seed=seed), tmp_path, lambda done, total: None)
    log = tmp_path / "log.parquet"
    pl.concat(pl.read_parquet(part) for part in parts).write_parquet(log)
    config = tmp_path / "run.toml"
    config.write_text(CONFIG.format(log=log, runs=tmp_path / "runs"))
    assert invoke("simulate", config).exit_code == 0
    summary = json.loads((tmp_path / "runs" / "latest" / "summary.json").read_text())
    options = ("--sizes", 400, "--only", "top-k", "--train-share", 0.2, "--into", tmp_path / "out")
    (predicted,) = json_of("policies", log, *options)["outcomes"]
    share = predicted["hits"] / predicted["updates"]
    assert share == pytest.approx(summary["hot_update_share"], abs=TOLERANCE)
    assert share == pytest.approx(skew, abs=0.1)
