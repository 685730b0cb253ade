"""Shares of updates by memory of the switch, against sums by hand; and the built-in log of a DLRM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiment.errors import ConfigError
from foundation.errors import DataError
from foundation.protocol.header import DIMS, QUAD, lanes_of_dim
from foundation.protocol.memory import ENTRY_BYTES, REGISTER_BYTES, memory_of, memory_of_rows, rows_within
from hosts.workload.criteo import FIRST_ROWS, TABLES
from hotline_policies.generated import LogSpec, write_parts
from hotline_policies.memory import COMPARED_DIMS, OWN, memory_shares
from hotline_policies.result import study
from tests.harness.access_logs import rows_with_dims, write_rows_with_dims
from tests.harness.cli import invoke, json_of

SIZES = (1, 100, 1_000, 3_000, 10**6)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_rows_with_dims(tmp_path, rows_with_dims())


def by_hand(size: int, dims: dict[int, int]) -> tuple[int, float]:
    """Return how many keys `size` bytes hold, and their share of the updates in the second half."""
    updates = {(int(step), int(key)) for step, _, _, key, *_ in (row.split(",") for row in rows_with_dims())}
    halves = (
        Counter(key for step, key in updates if step < 12),
        Counter(key for step, key in updates if step >= 12),
    )
    left, chosen = size, list[int]()
    for key, _ in halves[0].most_common():
        left -= max(dims[key], QUAD) * REGISTER_BYTES + ENTRY_BYTES
        if left < 0:
            break
        chosen.append(key)
    return len(chosen), sum(halves[1][key] for key in chosen) / sum(halves[1].values())


def test_shares_of_updates_by_memory_equal_sums_by_hand(log: Path) -> None:
    keys = {int(row.split(",")[3]) for row in rows_with_dims()}
    found = memory_shares(log, columns=("table=table,dim=n",), memory=SIZES)
    assert [each.values for each in found.dims] == [OWN, *map(str, COMPARED_DIMS)]
    for each in found.dims:
        own = each.values == OWN
        dims = {key: (16 if key < 1_000 else 64) if own else int(each.values) for key in keys}
        for point in each.points:
            rows, share = by_hand(point.size or 10**9, dims)
            assert point.memory.rows == rows
            if rows in (0, len(keys)):  # of equal numbers of updates, another key may be chosen by hand
                assert point.share == pytest.approx(share)
            assert point.memory.total <= (point.size or 10**9)
        shares = [point.share for point in each.points]
        assert shares == sorted(shares) and shares[0] == 0


@pytest.mark.parametrize("dim", DIMS)
def test_rows_within_a_size_are_the_most_that_fit(dim: int) -> None:
    dims = np.full(200, dim)
    for rows in (0, 1, 7, 199):
        size = memory_of(rows, dim).total
        assert rows_within(size, dims) == rows and rows_within(size - 1, dims) == max(rows - 1, 0)
    assert rows_within(10**9, dims) == 200
    mixed = np.random.default_rng(dim).choice(DIMS, 50)
    for rows in (3, 50):
        assert rows_within(memory_of_rows(mixed[:rows]).total, mixed) == rows


def test_the_terminal_and_the_json_have_the_same_shares(log: Path) -> None:
    command = ("policies", "memory", log, "--columns", "dim=n", "--memory", "500,2000")
    found, printed = json_of(*command), invoke(*command).stdout
    for each in found["dims"]:
        [line] = [line for line in printed.splitlines() if line.startswith(f"{each['values']} ")]
        assert all(f"{point['share']:.1%}" in line for point in each["points"])


def test_a_log_without_updates_in_a_half_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("iteration,worker,key,op\n1,1,5,push\n2,1,5,pull\n")
    with pytest.raises(DataError, match="both halves"):
        memory_shares(tmp_path / "log.csv")


def test_the_tables_of_a_dlrm_have_their_rows_and_dims(tmp_path: Path) -> None:
    files = write_parts(LogSpec(None, 150), tmp_path, lambda done, total: None)
    frame = pl.concat(map(pl.read_parquet, files))
    assert frame["iteration"].to_list() == sorted(frame["iteration"]) and frame["iteration"].max() == 149 // 4
    assert frame.group_by("iteration", "worker", "key").len()["len"].max() == 1
    for number, (table, first) in enumerate(zip(TABLES, FIRST_ROWS, strict=False), 1):
        rows = frame.filter(pl.col("table") == number)
        assert rows["dim"].unique().to_list() == [table.dim]
        assert rows["key"].min() >= first and rows["key"].max() < first + table.rows  # type: ignore[operator]  # not null
    keys_per_step = frame.height / 150
    assert keys_per_step == pytest.approx(3_000, rel=0.05)


def test_a_study_of_a_dlrm_uses_its_dims_unless_options_give_dims(tmp_path: Path) -> None:
    def made(**options: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = study(built_in="criteo", steps=40, policies=("top-k",), into=tmp_path / "into", **options)
        assert found.facts.tables == tuple(sorted(map(str, range(1, 27)), key=found.facts.tables.index))
        again = study(built_in="criteo", steps=40, policies=("top-k",), into=tmp_path / "into", **options)
        assert again == found  # from the files of the folder
        return found.facts.dims, found.settings.sizes

    assert made(sizes=(500,)) == ((1, 4, 8, 16, 32, 64), (500,))
    assert made(sizes=(500,), dim=100) == ((128,), (500,))
    with pytest.raises(ConfigError, match="criteo"):
        study(built_in="criteo", into=tmp_path, half_life=5.0)
    with pytest.raises(ConfigError, match="criteo"):
        study(built_in="criteo", into=tmp_path, shift=True)


@pytest.mark.parametrize("dim", [16, 64])
def test_sizes_of_a_study_fit_the_column_of_dims(tmp_path: Path, dim: int) -> None:
    (tmp_path / "log.csv").write_text("key,d\n" + "".join(f"{at % 9},{dim}\n" for at in range(50)))
    options: dict[str, Any] = {"columns": ("dim=d",), "policies": ("top-k",), "samples_per_step": 5}
    found = study(tmp_path / "log.csv", into=tmp_path / "into", **options)
    fixed = study(tmp_path / "log.csv", into=tmp_path / "other", **{**options, "columns": (), "dim": dim})
    assert found.settings.sizes == fixed.settings.sizes
    assert [each.size for each in found.outcomes] == [each.size for each in fixed.outcomes]
    most = 4_096 * lanes_of_dim(dim)
    for into in ("into", "third"):  # with its files, and without
        with pytest.raises(DataError, match=f"{most:,}"):
            study(tmp_path / "log.csv", into=tmp_path / into, sizes=(most + 1,), **options)
