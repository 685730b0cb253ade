"""Latencies and queues of the newest blocks, from part files of a run in progress."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.live import LiveLatencies, has_ended, run_folder
from analysis.record import AnalysisError
from foundation.errors import DataError
from switch_harness.wording import mentions
from tests.harness.watched import a_block, a_run, operations, rpcs


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    return folder


def test_latencies_of_a_block_are_of_all_workers(parts: Path) -> None:
    operations(parts, 1, range(1, 101, 2), 1000)
    operations(parts, 2, range(2, 101, 2), 1000)
    rpcs(parts, 1, [(10, 1), (20, 2)], 1000)
    rpcs(parts, 2, [(60, 6)], 1001)
    rpcs(parts, 2, [(1e6, 1e6)], 1001, measured=False)
    rpcs(parts, 2, [(1e6, 1e6)], 1001, op="empty")
    # Nearest ranks of 1 to 100; (10 + 20 + 60) / 3 and (1 + 2 + 6) / 3.
    assert LiveLatencies(parts).read() == [a_block("offload", 0, 0.8, 50, 99, 500, 990, 30, 3)]


def test_the_newest_block_of_each_arm_counts(parts: Path) -> None:
    live = LiveLatencies(parts)
    assert live.read() == []
    operations(parts, 1, [5], 1000, arm="offload", round_number=1, load=0.5)
    operations(parts, 1, [7], 2000, arm="baseline", round_number=1, load=0.5)
    operations(parts, 1, [6], 3000, arm="offload", round_number=1, load=0.8)
    for at_us, wait, load in ((1001, 1, 0.5), (3001, 2, 0.8)):
        rpcs(parts, 1, [(wait, wait)], at_us, round_number=1, load=load)
    baseline = a_block("baseline", 1, 0.5, 7, 7, 70, 70, None, None)
    assert live.read() == [baseline, a_block("offload", 1, 0.8, 6, 6, 60, 60, 2, 2)]
    operations(parts, 1, [4], 4000, round_number=2, load=0.5)
    rpcs(parts, 1, [(3, 3)], 4001, round_number=2, load=0.5)
    assert live.read() == [baseline, a_block("offload", 2, 0.5, 4, 4, 40, 40, 3, 3)]


def test_a_worker_that_is_behind_has_no_part_in_the_newest_block(parts: Path) -> None:
    operations(parts, 2, [900], 1000)
    operations(parts, 1, [4], 2000, round_number=1)
    operations(parts, 3, [900], 1000)
    live = LiveLatencies(parts)
    assert live.read() == [a_block("offload", 1, 0.8, 4, 4, 40, 40, None, None)]
    operations(parts, 2, [8], 2000, round_number=1)
    assert live.read() == [a_block("offload", 1, 0.8, 4, 8, 40, 80, None, None)]


def test_the_eleventh_part_is_newer_than_the_tenth(parts: Path) -> None:
    for number in range(11):
        operations(parts, 1, [100 + number], 1000 * number, round_number=number)
    assert LiveLatencies(parts).read() == [a_block("offload", 10, 0.8, 110, 110, 1100, 1100, None, None)]


def test_the_last_run_of_a_repeated_block_counts(parts: Path) -> None:
    operations(parts, 1, [900], 1000)
    rpcs(parts, 1, [(900, 900)], 1001)
    live = LiveLatencies(parts)
    assert live.read() == [a_block("offload", 0, 0.8, 900, 900, 9000, 9000, 900, 900)]
    rpcs(parts, 1, [(9, 8)], 2001)
    operations(parts, 1, [7], 2000)
    assert live.read() == [a_block("offload", 0, 0.8, 7, 7, 70, 70, 9, 8)]


def test_rpcs_of_a_running_block_are_kept_until_its_operations_come(parts: Path) -> None:
    live = LiveLatencies(parts)
    rpcs(parts, 1, [(1, 2)], 1001)
    assert live.read() == []
    operations(parts, 1, [7], 1000)
    rpcs(parts, 1, [(5, 6)], 2001, round_number=1)
    rpcs(parts, 1, [(9, 9)], 3001, load=0.5)
    assert live.read() == [a_block("offload", 0, 0.8, 7, 7, 70, 70, 1, 2)]
    operations(parts, 1, [8], 2000, round_number=1)
    assert live.read() == [a_block("offload", 1, 0.8, 8, 8, 80, 80, 5, 6)]


def test_parts_are_read_once(parts: Path) -> None:
    operations(parts, 1, [7], 1000)
    rpcs(parts, 1, [(1, 2)], 1001)
    live = LiveLatencies(parts)
    found = live.read()
    for file in parts.iterdir():
        file.write_bytes(b"not Parquet any more")
    assert live.read() == found and len(found) == 1
    operations(parts, 1, [8], 2000, round_number=1)
    assert [block.pull_p50_us for block in live.read()] == [8]


def test_only_the_newest_twenty_parts_are_read(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    read_parquet = pl.read_parquet

    def noted(file: Path, **options: Any) -> pl.DataFrame:
        read.append(file.name)
        return read_parquet(file, **options)

    for number in range(23):
        for worker in (1, 2):
            operations(parts, worker, [number], 1000 * number, round_number=number)
    monkeypatch.setattr(pl, "read_parquet", noted)
    live = LiveLatencies(parts)
    assert [block.round for block in live.read()] == [22]
    assert sorted(read) == sorted(
        f"operations-worker-{worker}-{number}.parquet" for worker in (1, 2) for number in range(3, 23)
    )
    live.read()
    assert len(read) == 40


def test_operations_outside_of_rounds_are_left_out(parts: Path) -> None:
    operations(parts, 1, [7], 1000)
    operations(parts, 1, [9], 2000, round_number=-1, load=0.0)
    operations(parts, 1, [9], 2000, arm="profile", round_number=-1, load=0.0)
    assert LiveLatencies(parts).read() == [a_block("offload", 0, 0.8, 7, 7, 70, 70, None, None)]


def test_a_block_without_all_operations_has_no_latencies(parts: Path) -> None:
    operations(parts, 1, [7], 1000, ops=("pull", "step"))
    rpcs(parts, 1, [(1, 2)], 1001)
    operations(parts, 1, [], 1000, arm="offload-proxy")
    assert LiveLatencies(parts).read() == [
        a_block("offload", 0, 0.8, None, None, None, None, 1, 2),
        a_block("offload-proxy", 0, 0.8, None, None, None, None, None, None),
    ]


def test_a_part_that_was_merged_meanwhile_is_no_error(parts: Path) -> None:
    (parts / "operations-worker-1-0.parquet").symlink_to("gone")
    operations(parts, 2, [7], 1000)
    assert [block.pull_p50_us for block in LiveLatencies(parts).read()] == [7]


@pytest.mark.parametrize("columns", [None, {"arm": ["offload"]}])
def test_a_damaged_part_is_one_error_that_names_the_file(
    parts: Path, columns: dict[str, list[str]] | None
) -> None:
    file = parts / "rpc-worker-1-0.parquet"
    file.touch() if columns is None else pl.DataFrame(columns).write_parquet(file)
    with pytest.raises(DataError, match=mentions("read", str(file))):
        LiveLatencies(parts).read()


@pytest.mark.parametrize(
    ("error", "parts", "ended"),
    [
        ("it was killed", True, False),
        ("it was killed", False, True),
        (None, True, True),
        (None, False, True),
    ],
)
def test_a_run_has_ended_if_its_record_is_complete_or_its_parts_are_merged(
    tmp_path: Path, error: str | None, parts: bool, ended: bool
) -> None:
    assert has_ended(a_run(tmp_path / "run", error, parts=parts)) is ended


def test_a_running_run_is_preferred_to_the_latest_finished_run(tmp_path: Path) -> None:
    assert run_folder(None, tmp_path) is None
    before = a_run(tmp_path / "20261120-120000", None, parts=False)
    (tmp_path / "latest").symlink_to(before.name)
    assert run_folder(None, tmp_path) == before
    (tmp_path / "20261120-130000" / "parts").mkdir(parents=True)
    assert run_folder(None, tmp_path) == before
    now = a_run(tmp_path / "20261120-110000")
    assert run_folder(None, tmp_path) == now
    for other in (a_run(tmp_path / "20261120-140000"), a_run(tmp_path / "20261120-100000")):
        os.utime(other, (1, 1))  # it was killed before
    os.utime(a_run(tmp_path / "20261120-150000", None, parts=False), (2**32, 2**32))
    assert run_folder(None, tmp_path) == now
    assert run_folder(tmp_path / "latest", tmp_path) == before
    with pytest.raises(AnalysisError, match=mentions("20261120-130000", "run.json")):
        run_folder(tmp_path / "20261120-130000", tmp_path)
