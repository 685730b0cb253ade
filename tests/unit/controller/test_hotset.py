"""Hot sets from update logs, and the checks on their files."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import HotSetError
from controller.hotset import choice as hotset
from foundation.errors import DataError
from foundation.logs.parts import check_output
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import NO_KEY
from switch_harness.wording import mentions
from tests.harness.snapshots import exactly

LARGEST = 2**64 - 2


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def parquet(path: Path, **columns: list[int]) -> Path:
    pl.DataFrame(columns, schema_overrides={"key": pl.UInt64}).write_parquet(path)
    return path


def test_logs_of_every_form_are_added_up(tmp_path: Path) -> None:
    logs = [
        parquet(tmp_path / "a.parquet", job=[1, 1], ps=[0, 0], key=[5, LARGEST], updates=[10, 7]),
        csv(tmp_path / "b.csv", f"key,updates,note\n5,1,x\n{LARGEST},4,y\n6,0,z\n"),
        csv(tmp_path / "c.csv", "iteration,worker,key\n1,1,8\n1,2,8\n2,1,5\n"),
        parquet(tmp_path / "d.parquet", iteration=[1], worker=[1], key=[8]),
    ]
    hot = hotset.build(logs, 10)
    assert dict(hot.schema) == hotset.SCHEMA
    assert hot.rows() == [
        (1, 5, 12, pytest.approx(12 / 26), 1, lane_of(5)),
        (2, LARGEST, 11, pytest.approx(11 / 26), 1, lane_of(LARGEST)),
        (3, 8, 3, pytest.approx(3 / 26), 1, lane_of(8)),
    ]


@given(st.lists(st.integers(0, 30), min_size=1), st.integers(1, 40), st.integers(1, 20))
def test_the_top_k_keys_equal_a_plain_counters_with_ties_broken_by_key(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], top_k: int, part_rows: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    keys = [*keys, keys[0]]  # a log without a repeated key is refused
    parquet(path, iteration=keys, worker=keys, key=keys)
    expected = sorted(Counter(keys).items(), key=lambda item: (-item[1], item[0]))[:top_k]
    hot = hotset.build([path], top_k, part_rows=part_rows)
    assert list(zip(hot["key"], hot["updates"], strict=True)) == expected
    assert hot["share"].sum() == pytest.approx(sum(count for _, count in expected) / len(keys))


def test_a_hot_set_can_be_built_from_one_job_of_a_log(tmp_path: Path) -> None:
    log = parquet(tmp_path / "a.parquet", job=[1, 2, 2], ps=[0, 0, 0], key=[5, 5, 6], updates=[10, 1, 3])
    assert hotset.build([log], 5, job=2)["key"].to_list() == [6, 5]
    with pytest.raises(DataError, match="no update of job 3"):
        hotset.build([log], 5, job=3)
    with pytest.raises(DataError, match=mentions("c.csv", "column")):
        hotset.build([csv(tmp_path / "c.csv", "key,updates\n1,1\n")], 5, job=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "has the columns a, b; an update log has key, updates or iteration"),
        ("key,updates\n1,-2\n", "line 2: column updates is '-2'"),
        ("key,updates\n1,1\n\n", "line 3: column key is empty"),
        ("iteration,worker,key\n1,,2\n", "line 2: column worker is empty"),
        ("iteration,worker,key\n,1,2\n", "line 2: column iteration is empty"),
        (f"key,updates\n1,{2**63}\n2,{2**63}\n", "add up to 1.845e"),
        (f"key,updates\n1,{2**63}\n1,{2**63}\n", "must stay below 2"),
        ("key,updates\n", "no update in it"),
        (f"key,updates\n{NO_KEY},2\n", "means 'no key' on the wire"),
    ],
)
def test_a_bad_log_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    log = csv(tmp_path / "log.csv", text)
    with pytest.raises((DataError, HotSetError), match=message) as error:
        hotset.build([log], 5)
    assert str(error.value).startswith(str(log)) and "\n" not in str(error.value)


def test_parquet_logs_are_read_as_strictly(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    cases: list[tuple[dict[str, list[Any]], str]] = [
        ({"key": [1, 2, -3], "updates": [1, 1, 1]}, "row 3: column key is -3"),
        ({"iteration": [1, 1], "worker": [1, None], "key": [2, 3]}, "row 2: column worker is null"),
        ({"key": [1, 2], "updates": [1, 1], "job": [1, None]}, "row 2: column job is null"),
    ]
    for columns, message in cases:
        pl.DataFrame(columns).write_parquet(path)
        with pytest.raises(DataError, match=message) as error:
            hotset.build([path], 5, job=1 if "job" in columns else None)
        assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_large_counts_are_added_up_exactly(tmp_path: Path) -> None:
    logs = [csv(tmp_path / f"{count}.csv", f"key,updates\n7,{count}\n") for count in (2**53 + 1, 1)]
    hot = hotset.build(logs, 5)
    assert (hot["updates"].to_list(), hot["share"].to_list()) == ([2**53 + 2], [1.0])


def test_the_wrong_log_of_several_is_named(tmp_path: Path) -> None:
    good_log = csv(tmp_path / "a.csv", "key,updates\n1,1\n")
    bad_log = csv(tmp_path / "b.csv", "key,updates\n1,\n")
    with pytest.raises(DataError, match=r"b\.csv, line 2"):
        hotset.build([good_log, bad_log], 5)


def test_more_keys_than_the_switch_has_slots_are_refused(tmp_path: Path) -> None:
    log = csv(tmp_path / "log.csv", "key,updates\n1,1\n")
    with pytest.raises(HotSetError, match=mentions(32, 4096, 131072)):
        hotset.build([log], 131073)
    assert hotset.build([log], 131072).height == 1


def test_a_non_regular_file_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/null"), tmp_path):
        with pytest.raises(DataError, match="not a regular file"):
            hotset.build([path], 5)
        with pytest.raises(DataError, match="not a regular file"):
            hotset.read(path)


def test_the_output_may_not_overwrite_its_input_or_a_device(tmp_path: Path) -> None:
    log = csv(tmp_path / "a.csv", "key,updates\n1,1\n")
    (tmp_path / "link").symlink_to(log)
    with pytest.raises(DataError, match=mentions("a.csv", "overwrite")):
        check_output(tmp_path / "link", [log])
    with pytest.raises(DataError, match=mentions("/dev/null", "regular")):
        check_output(Path("/dev/null"), [log])
    check_output(tmp_path / "new", [log])


def test_a_hot_set_survives_its_file(tmp_path: Path) -> None:
    hot = hotset.build([csv(tmp_path / "log.csv", "key,updates\n1,3\n2,4\n")], 5)
    path = tmp_path / "hot[1].parquet"  # which is no pattern
    hotset.write(hot, path)
    assert hotset.read(path).equals(hot)
    assert [file.name for file in tmp_path.iterdir() if "partial" in file.name] == []
    with pytest.raises(DataError, match=mentions("written", "file")):
        hotset.write(hot, tmp_path / "nowhere" / "hot.parquet")


def uint64(*numbers: int | None) -> pl.Series:
    return pl.Series(numbers, dtype=pl.UInt64)


def good() -> pl.DataFrame:
    keys = [4, 9]
    lanes = [lane_of(key) for key in keys]
    rows = {"rank": [1, 2], "key": keys, "updates": [5, 4], "share": [0.5, 0.4]}
    return pl.DataFrame({**rows, "dim": [1, 1], "lane": lanes}, schema=hotset.SCHEMA)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (good().with_columns(key=uint64(4, 4)), "expected different keys, got key 4 more than once"),
        (good().drop("lane"), r"expected the columns rank .* lane \(UInt8\), got rank "),
        (good().with_columns(pl.col("key").cast(pl.Int64)), r"got rank .* key \(Int64\)"),
        (good().with_columns(key=uint64(4, None)), "row 2 has no key"),
        (good().with_columns(share=pl.Series([0.5, None])), "row 2 has no share"),
        (good().with_columns(share=pl.Series([0.5, math.nan])), "share of key 9: expected .*, got nan"),
        (good().drop("dim"), "expected the column dim, got .* older version.*; build it again with "),
        (
            good().with_columns(dim=pl.Series([1, 3], dtype=pl.UInt8)),
            "dim of key 9: expected one of .*, got 3",
        ),
        (good().head(0), "has no keys; .* `hotline unload`"),
        (good().with_columns(lane=pl.lit(1, pl.UInt8)), f"the lane of key 4: expected {lane_of(4)}, got 1"),
    ],
)
def test_a_bad_hot_set_is_one_clear_error(tmp_path: Path, frame: pl.DataFrame, message: str) -> None:
    path = tmp_path / "hot.parquet"
    frame.write_parquet(path)
    with pytest.raises(HotSetError, match=message):
        hotset.read(path)


def test_a_file_that_is_not_parquet_is_refused_as_hot_set(tmp_path: Path) -> None:
    with pytest.raises(HotSetError, match="not a Parquet file"):
        hotset.read(csv(tmp_path / "hot.parquet", "key,updates\n1,2\n"))
    with pytest.raises(DataError, match=mentions("read", "parquet")):
        hotset.read(csv(tmp_path / "hot.parquet", "PAR1 and nothing else"))


def test_fewer_keys_than_requested_give_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = csv(tmp_path / "log.csv", "key,updates\n1,3\n2,4\n3,0\n")
    hotset.build([log], 2)
    assert caplog.messages == []
    assert hotset.build([log], 5).height == 2
    assert caplog.messages == ["only 2 keys have updates, fewer than the 5 asked for"]


def test_a_header_of_many_columns_is_cut_short(tmp_path: Path) -> None:
    for length, reported in ((200, "c" * 200), (201, "c" * 200 + "...")):
        log = csv(tmp_path / "log.csv", "c" * length + "\n1\n")
        text = f"{log}: has the columns {reported}; an update log has key, updates or iteration, worker, key"
        with pytest.raises(DataError, match=exactly(text)):
            hotset.build([log], 5)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_from_0_to_1(tmp_path: Path, share: float) -> None:
    path = tmp_path / "hot.parquet"
    good().with_columns(share=pl.Series([0.0, share])).write_parquet(path)
    text = f"{path}: the share of key 9: expected a number from 0 to 1, got {share}"
    with pytest.raises(HotSetError, match=exactly(text)):
        hotset.read(path)
    good().with_columns(share=pl.Series([share, share])).write_parquet(path)
    with pytest.raises(HotSetError, match=mentions("key 4", "share")):
        hotset.read(path)
    good().with_columns(share=pl.Series([1.0, 0.0])).write_parquet(path)
    assert hotset.read(path).height == 2


def test_the_output_is_checked_before_the_logs_are_read(tmp_path: Path) -> None:
    log = csv(tmp_path / "a.csv", "key,updates\n1,1\n")
    path = tmp_path / "hot.parquet"
    (tmp_path / "hot.parquet.partial").mkdir()
    text = f"{path}.partial: not a regular file; nothing can be written there"
    with pytest.raises(DataError, match=exactly(text)):
        check_output(path, [log])
    long = tmp_path / ("x" * 300)
    with pytest.raises(DataError, match=exactly(f"{long}: cannot be written: File name too long")):
        check_output(long, [log])
    # A missing log is an error when it is read.
    check_output(tmp_path / "new", [tmp_path / "gone.csv"])


def test_all_logs_are_named_if_any_may_be_wrong(tmp_path: Path) -> None:
    first, second = (csv(tmp_path / f"{name}.csv", f"key,updates\n1,{2**62}\n") for name in "ab")
    text = f"{first}, {second}: the updates add up to 9.223e+18; they must stay below 2^63"
    with pytest.raises(DataError, match=exactly(text)):
        hotset.build([first, second], 5)


def test_a_log_that_is_damaged_inside_is_one_clear_error(tmp_path: Path) -> None:
    """The header is valid and no value is wrong, so the message cannot name a place."""
    path = parquet(tmp_path / "log.parquet", key=list(range(1000)), updates=[1] * 1000)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(DataError, match=mentions("read", path)):
        hotset.build([path], 5)
