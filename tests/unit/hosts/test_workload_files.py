"""Training sets and update logs as workloads."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import DataError
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.format_detection import EXPECTED, open_log
from hosts.model.logistic import to_fixed_point
from hosts.workload import data_files
from hosts.workload.generator import R1, generate
from hosts.workload.trace import Trace
from switch_harness.wording import mentions
from tests.harness.snapshots import exactly

SET = """\
+1 1:1 5:0.5   # a comment
-1 2:2

1 5:1 18446744073709551000:3
-1
"""


def test_a_libsvm_file_is_read_as_a_training_set(tmp_path: Path) -> None:
    path = tmp_path / "set"
    path.write_text(SET)
    trace = data_files.load_training_set(path, workers=2, samples_per_step=2)
    assert (trace.workers, trace.steps) == (2, 1)
    assert trace.space.all().tolist() == [1, 2, 5, 18446744073709551000]
    first, second = trace.batch(1, 0), trace.batch(2, 0)
    assert trace.space.keys(first.positions).tolist() == [1, 2, 5]
    assert first.label is not None and first.label.tolist() == [1, 0]
    assert first.sample is not None and first.sample.tolist() == [0, 0, 1]
    assert first.column is not None and first.column.tolist() == [0, 2, 1]
    assert first.x is not None and first.x.tolist() == [1, 0.5, 2]
    assert trace.space.keys(second.positions).tolist() == [5, 18446744073709551000]
    assert second.label is not None and second.label.tolist() == [1, 0]
    assert second.sample is not None and second.sample.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n2 1:1\n", r"set, line 2: label '2' is not binary \(0/1 or -1/\+1\)"),
        ("0 1:1\n-1 1:1\n", "line 2: labels 0 and -1 in one file"),
        ("1 1\n", "line 1: '1' is not index:value"),
        ("1 -1:1\n", "line 1: '-1:1' is not index:value"),
        ("1 1:x\n", "line 1: '1:x': 'x' is no number"),
        ("1 1:1_0\n", "line 1: '1:1_0': '1_0' is no number"),
        ("1 1:nan\n", "the value is not finite"),
        ("1 1:1e39\n", "line 1: '1:1e39': the value is beyond 32-bit floats, which reach to 3.403e"),
        ("1 1:-1e39\n", "line 1: '1:-1e39': the value is beyond"),
        ("a,b\n1,2\n", r"line 1: label 'a,b' .*; the file was read as libsvm; an access log must be Parquet"),
        ("1 2:1 1:1\n", "index 1 after 2; indices must increase"),
        ("1 18446744073709551615:1\n", "expected an index below 2"),
        ("1 1:1\n", "expected at least 4 samples for 2 mini-batches, got 1"),
        ("1\n1\n1\n1\n", "no sample has a feature"),
        ("1 1:\u00b2\n", "cannot be read as libsvm"),
    ],
)
def test_an_invalid_libsvm_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "set"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        data_files.load_training_set(path, workers=2, samples_per_step=2)


LOG = {
    "iteration": [2, 1, 1, 1, 1, 2, 3],
    "worker": [0, 0, 0, 7, 0, 7, 0],
    "key": [9, 2**63, 3, 3, 3, 4, 1],
}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_an_update_log_is_replayed_by_worker_and_step(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"log.{kind}"
    frame = pl.DataFrame(LOG, schema_overrides={"key": pl.UInt64})
    frame.write_parquet(path) if kind == "parquet" else frame.write_csv(path)
    trace = data_files.load_log(path, 2, ReadOptions())
    keys = [[trace.space.keys(trace.batch(w, s).positions).tolist() for s in range(2)] for w in (1, 2)]
    assert keys == [[[3, 2**63], [9]], [[3], [4]]]
    trace.save(tmp_path / "trace")
    back = Trace.load(tmp_path / "trace")
    assert back.samples is None and np.array_equal(back.space.all(), trace.space.all())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iteration,worker,key\n1,2,x\n", "log.csv, line 2: column key is 'x'"),
        ("iteration,worker,key\n1,,2\n", "line 2: column worker is empty"),
        (
            "iteration,worker,key\n1,2,18446744073709551615\n",
            "line 2: column key is '18446744073709551615'; .* to 2.64 - 2",
        ),
        ("iteration,worker,key\n1,2,3\n", "expected at least 2 mini-batches, .* got 1"),
        ("iteration,worker,key\n", "log.csv: no access in it; expected at least one$"),
    ],
)
def test_an_invalid_update_log_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        data_files.load_log(path, 2, ReadOptions())


def test_a_file_of_either_format_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("iteration,worker,key\n1,1,4\n1,2,5\n2,1,4\n")
    replayed = data_files.load(path, 2, ReadOptions(batch=7))
    assert replayed.samples is None and replayed.space.all().tolist() == [4, 5]
    path.write_text(SET)
    trained = data_files.load(path, 2, ReadOptions(batch=2))
    assert trained.samples is not None and trained.space.all().tolist() == [1, 2, 5, 18446744073709551000]


NEITHER = "is neither text nor Parquet, which begins with PAR1, nor Arrow (ARROW1), nor oracleGeneral"


@pytest.mark.parametrize("name", ["x.parquet", "x.svm"])
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (random.Random(1).randbytes(1000), NEITHER),
        ("iteration,worker,key\n1,1,1\n".encode("utf-16"), NEITHER),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
    ],
    ids=["random", "UTF-16", "empty", "blank"],
)
def test_a_file_of_neither_format_is_refused(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=exactly(f"{path}: {what}; {EXPECTED}")):
        open_log(path, ReadOptions())


def test_file_names_and_byte_order_marks_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "log[1]*.csv"
    path.write_text("\ufeffiteration,worker,key\n1,1,4\n")
    assert data_files.load_log(path, 1, ReadOptions()).space.all().tolist() == [4]
    with pytest.raises(DataError, match=mentions("/dev/null", "regular")):
        open_log(Path("/dev/null"), ReadOptions())


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_gradients_that_are_not_finite_are_refused(number: float) -> None:
    with pytest.raises(DataError, match=f"a gradient is {number}"):
        to_fixed_point(np.array([1.0, number]), 2.0)


def test_fixed_point_is_clipped() -> None:
    numbers = np.array([1.5, -1, 1e30, -1e30], dtype=np.float32)
    assert to_fixed_point(numbers, 2.0).view(np.int32).tolist() == [3, -2, 2**31 - 1, -(2**31)]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=mentions("none", "read")):
        open_log(tmp_path / "none", ReadOptions())


@pytest.mark.parametrize(
    ("keys_per_step", "hot_share", "advised"), [(100_000_000, 0.5, 10_000), (10_000, 0.9, 5_000)]
)
def test_more_keys_a_step_than_the_hottest_allows_are_refused(
    keys_per_step: int, hot_share: float, advised: int
) -> None:
    expected = rf"^{keys_per_step} keys per step are too many for workload R1.* {advised}$"
    with pytest.raises(DataError, match=expected):
        generate(replace(R1, keys_per_step=keys_per_step, hot_share=hot_share), 4, 1, 1)
