"""Logs and training sets as arrays in the order of time; what is wrong with them in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import DataError
from foundation.logs.access import steps
from foundation.logs.access.block import ReadOptions
from hotline_policies.log import PolicyLog, prepare
from switch_harness.wording import mentions
from tests.harness.access_logs import keys_by_step


def prepared(*files: Path, train_share: float = 0.5, samples: int = 2) -> PolicyLog:
    folder = files[0].parent / f"arrays-{len(list(files[0].parent.iterdir()))}"
    folder.mkdir()
    return prepare(files, folder, train_share, ReadOptions(batch=samples), lambda done, total: None)


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


HEAD = "iteration,worker,key\n"


@pytest.mark.parametrize("rows_at_once", [1, 3, 1_000])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_of_any_order_become_steps_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, rows_at_once: int
) -> None:
    monkeypatch.setattr(steps, "ACCESSES_AT_ONCE", rows_at_once)
    big = 2**63 + 5
    log = csv(tmp_path / "log.csv", f"{HEAD}7,2,5\n3,1,{big}\n3,2,9\n3,1,5\n7,2,5\n900,1,1\n3,1,9\n")
    if form == "parquet":
        frame = pl.read_csv(log, schema_overrides={"key": pl.UInt64})
        log = tmp_path / "log.parquet"
        frame.write_parquet(log)
    found = prepared(log)
    assert keys_by_step(found) == [[5, 9, big], [9], [5], [1]]
    assert (found.keys.tolist(), found.training_steps, found.training_accesses) == ([1, 5, 9, big], 2, 4)


def test_logs_of_several_servers_are_merged_in_the_order_of_steps(tmp_path: Path) -> None:
    one = csv(tmp_path / "one.csv", f"{HEAD}1,1,4\n2,1,4\n1,2,4\n")
    two = csv(tmp_path / "two.csv", f"{HEAD}1,1,3\n2,1,5\n")
    assert keys_by_step(prepared(one, two)) == [[3, 4], [4], [4, 5]]


def test_pulls_come_before_updates(tmp_path: Path) -> None:
    text = "iteration,worker,op,key\n1,1,push,4\n1,1,pull,6\n1,1,pull,4\n2,1,push,6\n"
    found = prepared(csv(tmp_path / "log.csv", text))
    assert keys_by_step(found) == [[-4, -6, 4], [6]]
    assert found.has_pulls


def test_training_sets_follow_one_another(tmp_path: Path) -> None:
    one = csv(tmp_path / "one.svm", "1 1:1 5:1\n0 1:2\n1 7:0.5\n")
    two = csv(tmp_path / "two.svm", "1 2:1\n0 2:1 9:1\n")
    assert keys_by_step(prepared(one, two)) == [[1, 5], [2, 7], [2, 9]]


def test_each_access_has_the_position_of_the_next_access_to_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotline_policies.log._CHUNK", 3)
    found = prepared(csv(tmp_path / "log.csv", f"{HEAD}1,1,1\n1,1,2\n2,1,2\n3,1,1\n3,1,3\n4,1,2\n"))
    never = 2**32 - 1
    assert found.next_access.tolist() == [3, 2, 5, never, never, never]
    assert isinstance(found.next_access, np.memmap)
    assert found.counts.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.csv", "key,updates\n1,2\n", "counts without their order.*hotset curve"),
        ("log.csv", "iteration,weight\n1,2\n", "no column looks like a key.*one of iteration, weight"),
        ("log.csv", f"{HEAD}1,1,2\n1,x,3\n", "line 3: column worker is 'x'; expected an integer"),
        ("log.csv", f"{HEAD}1,1,2\n1,,3\n", "line 3: column worker is empty; expected an integer"),
        ("log.csv", f"{HEAD}1,1,2\n2,1,{2**64 - 1}\n", "line 3: column key is '1844.*5'; .* to 2.64 - 2"),
        (
            "log.csv",
            "iteration,worker,key,op\n1,1,2,push\n1,1,2,get\n1,1,3,fetch\n",
            "line 4: column op is 'fetch'; expected pull or",
        ),
        ("log.csv", HEAD, "no access in it"),
        ("log.csv", f"{HEAD}1,1,2\n1,1,3\n", "one mini-batch"),
        ("log.svm", "1 1:1\n2 1:1\n", "line 2: label '2' is not binary"),
        ("log.csv", "item_id,user_id\n,\n", "no access in it"),
        ("log.svm", "", "is empty"),
    ],
)
def test_an_error_names_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        prepared(csv(tmp_path / name, text))
    assert "\n" not in str(refused.value)


def test_a_wrong_parquet_row_is_named_by_its_number(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    pl.DataFrame({"iteration": [1, 2], "worker": [1, -1], "key": [1, 2]}).write_parquet(log)
    with pytest.raises(DataError, match=mentions("row 2", "-1")):
        prepared(log)


def test_a_missing_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        prepared(tmp_path / "gone.csv")
