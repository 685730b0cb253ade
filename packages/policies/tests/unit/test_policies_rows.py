"""Policies and miss ratios of logs whose keys name rows of several values: RPCs, memory and sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiment.errors import ConfigError
from foundation.errors import DataError
from foundation.protocol.header import DIMS, LANES, lanes_of_dim
from foundation.protocol.memory import memory_of
from foundation.protocol.rows import banks_of_row
from hotline_policies.log import make_log
from hotline_policies.miss_ratio.result import miss_ratio
from hotline_policies.packets import rpcs_without_offload, sample_steps
from hotline_policies.result import study
from hotline_policies.settings import DEFAULT_SIZES, StudySettings
from switch_harness.wording import mentions
from tests.harness.cli import invoke

KEYS = 600


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.parquet"
    rows = {"iteration": np.arange(20 * KEYS) // KEYS, "user": np.arange(20 * KEYS) % KEYS}
    pl.DataFrame(rows).with_columns(item="user").write_parquet(file)
    return file


@pytest.mark.parametrize("dim", DIMS)
def test_rpcs_have_as_many_rows_as_their_dim_allows(dim: int) -> None:
    """All keys go to one server, so only the last RPC is not full."""
    log = make_log([range(1, KEYS + 1)] * 4)
    rpcs = rpcs_without_offload(sample_steps(log, np.full(KEYS, dim)), servers=1)
    assert rpcs.rpcs == rpcs.to_servers == -(-KEYS // lanes_of_dim(dim))


def test_rows_of_two_dims_travel_apart() -> None:
    log = make_log([range(1, KEYS + 1)] * 4)
    dims = np.where(np.arange(KEYS) % 3 == 0, 64, 16)
    rpcs = rpcs_without_offload(sample_steps(log, dims), servers=1)
    assert rpcs.rpcs == -(-KEYS // 3 // lanes_of_dim(64)) + -(-KEYS * 2 // 3 // lanes_of_dim(16))


def test_a_study_says_the_memory_of_its_rows(log: Path, tmp_path: Path) -> None:
    def made(**rows: Any) -> Any:
        return study(log, into=tmp_path / "into", policies=("top-k",), sizes=(100, 1_000), **rows)

    columns = ("key=user,item,iteration=iteration",)
    one, wide = made(columns=columns), made(columns=columns, dim=60)
    assert one.facts.dims == (1,) and wide.facts.dims == (64,)
    assert one.facts.memory == (memory_of(100, 1), memory_of(1_000, 1))
    assert wide.facts.memory == (memory_of(100, 64), memory_of(1_000, 64))
    assert [each.hits for each in one.outcomes] == [each.hits for each in wide.outcomes]
    assert wide.facts.without.rpcs > 10 * one.facts.without.rpcs
    mixed = made(columns=columns, dims=("user=16", "item=64"))
    assert mixed.facts.dims == (16, 64)
    assert one.facts.without.rpcs < mixed.facts.without.rpcs < wide.facts.without.rpcs
    command = (
        "policies",
        log,
        "--columns",
        *columns,
        "--only",
        "top-k",
        "--dim",
        60,
        "--into",
        tmp_path / "x",
    )
    assert wide.memory_text(1_000) in invoke(*command, "--sizes", "100,1000").stdout


@pytest.mark.parametrize("dim", DIMS)
def test_sizes_are_of_rows_that_fit(dim: int) -> None:
    most = LANES * 4_096 // banks_of_row(dim)
    assert StudySettings(dim=dim).sizes == tuple(size for size in DEFAULT_SIZES if size <= most)
    assert StudySettings(dim=dim, sizes=(most,)).sizes == (most,)
    with pytest.raises((ConfigError, ValueError)):
        StudySettings(dim=dim, sizes=(most + 1,))


@pytest.mark.parametrize(
    ("dims", "most", "named"),
    [
        (("user=10", "item=64"), 4_096 * lanes_of_dim(16), ("10 values", "user")),
        (("user=128", "item=32"), 4_096 * lanes_of_dim(32), ("32 values", "item")),
        (("user=128",), 4_096 * LANES, ("1 value", "--dims")),
    ],
)
def test_sizes_belong_to_the_smallest_rows_of_the_log(
    log: Path, tmp_path: Path, dims: tuple[str, ...], most: int, named: tuple[str, str]
) -> None:
    options: dict[str, Any] = {
        "columns": ("key=user,item,iteration=iteration",), "policies": ("top-k",), "dims": dims
    }  # fmt: skip
    found = study(log, into=tmp_path / "into", **options)
    assert found.settings.sizes == tuple(size for size in DEFAULT_SIZES if size <= most)
    if most < 4_096 * LANES:  # more are refused for all rows
        for into in ("into", "second"):  # with the files of another study, and without
            with pytest.raises(DataError, match=mentions(f"{most:,}", *named)):
                study(log, into=tmp_path / into, sizes=(most + 1,), **options)


def test_caches_have_slots_of_a_key_and_a_row(log: Path, tmp_path: Path) -> None:
    columns = ("key=user,item,iteration=iteration",)
    ratios = miss_ratio(log, columns=columns, dims=("user=10", "item=64"))
    slot_bytes = {each.table: each.slot_bytes for each in ratios.curves}
    assert slot_bytes == {"all": 8 + 4 * 37, "user": 8 + 4 * 10, "item": 8 + 4 * 64}
    output = tmp_path / "curve.csv"
    options = ("--columns", *columns, "--dim", 16, "-o", output)
    found = json.loads(invoke("policies", "miss-ratio", log, *options, "--json").stdout)
    assert [each["slot_bytes"] for each in found["curves"]] == [72, 72, 72]
    written = pl.read_csv(output)
    assert (written["bytes"] == 72 * written["size"]).all()
