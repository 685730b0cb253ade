"""The share of updates of the top-k keys, for every k."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.hotset.choice import MAX_KEYS
from controller.hotset.coverage import Coverage, coverage, find_hottest, table_limit
from controller.sizes import SLOTS
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.steps import read_steps, updates_of
from foundation.logs.counts import Counts
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import LANES

COUNTS = st.dictionaries(st.integers(0, 2**64 - 2), st.integers(1, 9), min_size=1, max_size=60)


def covered(path: Path, updates: dict[int, int], *, jobs: int = 1, part_rows: int = 1000) -> Coverage:
    columns = {"key": list(updates), "updates": list(updates.values())}
    pl.DataFrame(columns, schema_overrides={"key": pl.UInt64}).write_parquet(path)
    return coverage(Counts.of_logs([path], part_rows=part_rows), jobs)


@given(COUNTS, st.integers(1, 20))
def test_the_coverage_of_the_top_k_keys_equals_sums_of_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, updates: dict[int, int], part_rows: int
) -> None:
    found = covered(tmp_path_factory.mktemp("logs") / "log.parquet", updates, part_rows=part_rows)
    largest = sorted(updates.values(), reverse=True)
    shares = [sum(largest[:k]) / sum(largest) for k in range(len(largest) + 1)]
    assert [found.share(k) for k in range(len(largest) + 1)] == pytest.approx(shares)
    assert (found.keys, found.updates) == (len(largest), sum(largest))
    above_chord = [share - k / len(largest) for k, share in enumerate(shares)]
    assert above_chord[found.knee] == pytest.approx(max(above_chord))
    points = found.points()
    assert points == sorted(set(points)) and (points[0], points[-1]) == (1, len(largest))


@given(st.lists(st.integers(0, 2**64 - 2), min_size=1, max_size=200, unique=True), st.integers(1, 5))
def test_the_limit_is_where_a_lane_is_full(keys: list[int], slots: int) -> None:
    taken: Counter[int] = Counter()
    fit = 0
    for key in keys:
        taken[lane_of(key)] += 1
        if taken[lane_of(key)] > slots:
            break
        fit += 1
    assert table_limit(np.array(keys, np.uint64), np.ones(len(keys), np.int64), SLOTS // slots) == fit


def test_the_limit_is_below_the_number_of_keys_if_keys_exceed_the_slots(tmp_path: Path) -> None:
    keys = np.arange(MAX_KEYS + 10_000, dtype=np.uint64)
    log = tmp_path / "log.parquet"
    pl.DataFrame({"key": keys, "updates": keys[::-1] + 1}).write_parquet(log)
    found = coverage(Counts.of_logs([log], part_rows=50_000))
    assert found.keys == MAX_KEYS + 10_000
    lanes = [lane_of(int(key)) for key in keys[: found.limit + 1]]
    assert lanes.count(lanes[-1]) == SLOTS + 1
    assert max(Counter(lanes[:-1]).values()) == SLOTS
    assert LANES * SLOTS * 0.9 < found.limit < MAX_KEYS


def test_the_recommended_top_k_is_the_knee_within_the_limit_of_the_tables(tmp_path: Path) -> None:
    """By hand: of 100 updates the first key has 60, two keys have 15 each, ten have 1 each."""
    lane = lane_of(1)
    same_lane = [key for key in range(1, 1000) if lane_of(key) == lane]
    updates = dict(zip(same_lane, [60, 15, 15, *[1] * 10], strict=False))
    found = covered(tmp_path / "log.parquet", updates)
    assert (found.knee, found.limit, found.recommended_top_k) == (3, 13, 3)
    assert [found.share(k) for k in (1, 2, 3, 4, 13)] == [0.6, 0.75, 0.9, 0.91, 1.0]
    narrow = covered(tmp_path / "log.parquet", updates, jobs=SLOTS // 2)
    assert (narrow.knee, narrow.limit, narrow.recommended_top_k) == (3, 2, 2)


def test_equally_hot_keys_have_a_linear_coverage(tmp_path: Path) -> None:
    found = covered(tmp_path / "log.parquet", dict.fromkeys(range(10), 7))
    assert (found.share(5), found.keys, found.updates) == (0.5, 10, 70)
    assert covered(tmp_path / "one.parquet", {5: 3}).points() == [1]


def test_progress_counts_the_parts(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    pl.DataFrame({"key": range(10), "updates": [1] * 10}).write_parquet(log)
    reported: list[tuple[int, int]] = []
    coverage(Counts.of_logs([log], part_rows=4), progress=lambda done, total: reported.append((done, total)))
    assert reported == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_mini_batch_of_a_training_set_updates_its_keys_once(tmp_path: Path) -> None:
    data = tmp_path / "train.svm"
    data.write_text("1 1:1 5:1\n0 1:2\n1 1:1 7:0.5\n")
    folder = tmp_path / "arrays"
    folder.mkdir()
    steps = read_steps([data], ReadOptions(batch=2), folder, lambda done, total: None)
    assert dict(zip(steps.keys.tolist(), updates_of(steps).tolist(), strict=True)) == {1: 2, 5: 1, 7: 1}


@given(updates=st.lists(st.integers(0, 5), min_size=1, max_size=40), top_k=st.integers(0, 45))
def test_the_hottest_keys_are_the_first_keys_of_a_stable_sort(updates: list[int], top_k: int) -> None:
    first = sorted(range(len(updates)), key=lambda key: -updates[key])[:top_k]
    assert np.flatnonzero(find_hottest(np.array(updates), top_k)).tolist() == sorted(first)
