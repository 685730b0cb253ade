"""A dask cluster counts hot sets and coverage as one process does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.harness.dask import cluster_of, scheduler


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster_of(2, tmp_path_factory.mktemp("dask")) as address:
        yield address


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, chance = tmp_path_factory.mktemp("logs"), np.random.default_rng(1)
    files = [folder / "ps-0.parquet", folder / "ps-1.csv"]
    frames = [
        pl.DataFrame({"key": chance.integers(0, 3_000, 5_000), "updates": chance.zipf(1.5, 5_000) % 1_000})
        for _ in files
    ]
    frames[0].write_parquet(files[0])
    frames[1].write_csv(files[1])
    return files


def test_a_dask_cluster_builds_the_same_hot_set_as_one_process(
    cluster: str, logs: list[Path], tmp_path: Path
) -> None:
    for name, options in (("here", []), ("there", ["--scheduler", cluster])):
        result = invoke("hotset", "build", *logs, "--top-k", 500, "-o", tmp_path / name, *options)
        assert result.exit_code == 0, result.output
    here, there = (pl.read_parquet(tmp_path / name) for name in ("here", "there"))
    assert here.height == 500 and here.equals(there)


def test_a_dask_cluster_computes_the_same_coverage_as_one_process(cluster: str, logs: list[Path]) -> None:
    here = invoke("hotset", "curve", *logs, "--json")
    there = invoke("hotset", "curve", *logs, "--json", "--scheduler", cluster)
    assert here.exit_code == 0 and here.stdout == there.stdout


def test_a_log_that_a_worker_of_the_cluster_cannot_read_is_named(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("key,updates\n1,2\n2,x\n")
    result = invoke("hotset", "curve", tmp_path / "bad.csv", "--scheduler", cluster)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        1,
        f"Error: {tmp_path}/bad.csv, line 3: column updates is 'x'; an integer from 0 to 2^64 - 1 expected",
    )


def test_a_missing_scheduler_is_one_error(logs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.dask_cluster._CONNECT_TIMEOUT_S", 0.5)
    result = invoke("hotset", "curve", *logs, "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert says(result.stderr, "--scheduler", "tcp://127.0.0.1:1")


def test_a_cluster_without_workers_is_one_error(logs: list[Path], tmp_path: Path) -> None:
    with scheduler(tmp_path) as address:
        result = invoke("hotset", "curve", *logs, "--scheduler", address)
    assert result.exit_code == 1 and says(result.stderr, "worker", "start")
