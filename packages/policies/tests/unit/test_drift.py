"""Generated logs have the drift that was asked for, and `half_life` measures it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.logs.access.block import ReadOptions
from foundation.logs.access.column_roles import AccessColumns
from hosts.workload.generator import Shape
from hotline_policies.drift import half_life, half_lives_by_table, recovery_time
from hotline_policies.generated import LogSpec, write_parts
from hotline_policies.log import PolicyLog, make_log, prepare

SHAPE = Shape("small", 20_000, 400, 0.5, 100, 4)
WITHOUT_DRIFT = LogSpec(SHAPE, 2_000)


def written(spec: LogSpec, folder: Path) -> list[Path]:
    return write_parts(spec, folder, lambda done, total: None)


def prepared(spec: LogSpec, folder: Path) -> PolicyLog:
    return prepare(written(spec, folder), folder, 0.5, ReadOptions(), lambda done, total: None)


def test_a_log_that_stays_has_the_shape_and_no_drift(tmp_path: Path) -> None:
    log = prepared(WITHOUT_DRIFT, tmp_path)
    workers = pl.read_parquet(tmp_path / "*.parquet")["worker"]
    assert (log.steps, workers.unique().sort().to_list()) == (2_000, [1, 2, 3, 4])
    counts = np.sort(np.bincount(log.accesses))[::-1]
    assert counts[:400].sum() / counts.sum() == pytest.approx(0.5, abs=0.03)
    assert len(log.accesses) / log.steps == pytest.approx(100, rel=0.05)
    assert half_life(log) is None


def test_a_half_life_is_found_again(tmp_path: Path) -> None:
    log = prepared(replace(WITHOUT_DRIFT, half_life=1_000), tmp_path)
    assert half_life(log) == pytest.approx(1_000, rel=0.2)
    assert half_lives_by_table(log) == []


def test_each_table_has_its_own_half_life(tmp_path: Path) -> None:
    """Of two tables in one log, only one of which drifts."""
    frames = []
    for name, steps in (("stays", None), ("drifts", 400)):
        (tmp_path / name).mkdir()
        parts = written(replace(WITHOUT_DRIFT, half_life=steps), tmp_path / name)
        frames.append(pl.read_parquet(parts).with_columns(table=pl.lit(name)))
    file, arrays = tmp_path / "log.parquet", tmp_path / "arrays"
    arrays.mkdir()
    pl.concat(frames).sort("iteration", "worker", maintain_order=True).write_parquet(file)
    options = ReadOptions(AccessColumns(table="table"))
    log = prepare([file], arrays, 0.5, options, lambda done, total: None)
    found = dict(zip(log.tables, half_lives_by_table(log), strict=True))
    assert found["stays"] is None and found["drifts"] == pytest.approx(400, rel=0.2)


def test_at_a_shift_half_of_the_hottest_change(tmp_path: Path) -> None:
    log = prepared(replace(WITHOUT_DRIFT, shift_at=1_000), tmp_path)
    halves = [
        np.bincount(part, minlength=len(log.keys)) for part in np.split(log.accesses, [log.training_accesses])
    ]
    top = [set(np.argsort(-counts)[:100].tolist()) for counts in halves]
    assert 0.35 < len(top[0] & top[1]) / 100 < 0.65
    assert sorted(halves[0])[-50:] == pytest.approx(sorted(halves[1])[-50:], rel=0.5)


def test_when_a_share_is_regained() -> None:
    assert recovery_time([0.4, 0.6, 0.1, 0.3, 0.48, 0.9, 0.1, 0.1], 0.25) == 0.25
    assert recovery_time([0.4, 0.6, 0.5, 0.5], 0.5) == 0
    assert recovery_time([0.5, 0.5, 0.1, 0.47], 0.5) is None
    assert recovery_time([0.5, 0.5], 0.0) is None


def test_too_short_a_log_has_no_drift() -> None:
    assert half_life(make_log([[1], [2], [3]])) is None
