"""The golden run's logs are as they should be; with any one value broken they are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from foundation.errors import DataError
from foundation.logs.check import check
from foundation.logs.columns import LOGS
from switch_harness.wording import mentions, says_in_one_line
from tests.harness.cli import invoke
from tests.unit.golden.run import GoldenRun

ROW = 7


def broken(golden: GoldenRun, folder: Path, log: str, change: dict[str, object]) -> Path:
    """Copy a log with other values in one row."""
    rows = pl.read_parquet(golden.folder / f"{log}.parquet")
    at = pl.int_range(1, pl.len() + 1) == ROW
    path = folder / f"{log}.parquet"
    rows.with_columns(
        pl.when(at).then(pl.lit(value)).otherwise(pl.col(name)).cast(rows.schema[name]).alias(name)
        for name, value in change.items()
    ).write_parquet(path)
    return path


def test_the_golden_logs_pass_the_check(golden: GoldenRun) -> None:
    rows = {f"{log}.parquet": pl.read_parquet(golden.folder / f"{log}.parquet").height for log in LOGS}
    assert check(golden.folder) == rows
    reported = invoke("logs", "check", golden.folder, "--json").stdout
    assert json.loads(reported) == {"path": str(golden.folder), "rows": rows}


@pytest.mark.parametrize(("log", "column"), [(log, column) for log in LOGS for column in LOGS[log]])
def test_no_value_may_be_left_out(golden: GoldenRun, tmp_path: Path, log: str, column: str) -> None:
    path = broken(golden, tmp_path, log, {column: None})
    with pytest.raises(DataError) as refusal:
        check(path)
    assert says_in_one_line(str(refusal.value), path, ROW, column)


@pytest.mark.parametrize(
    ("log", "change", "message"),
    [
        ("rpc", {"job": 9}, "job is 9; expected the job of the arm: "),
        ("rpc", {"n_tx_us": -1.0}, "n_tx_us is -1.0; a finite time from 0 expected"),
        ("rpc", {"switch_us": float("nan")}, "switch_us is nan; a finite time from 0 expected"),
        ("rpc", {"latency_us": float("inf")}, "latency_us is inf; a finite time from 0 expected"),
        ("rpc", {"latency_us": 2201.0}, "latency_us is 2201.0; the latency is the sum of w_proc_us, "),
        ("rpc", {"lanes": 33}, "lanes is 33; at most 32 lanes"),
        ("rpc", {"served": 33}, "lanes is 0; expected served <= lanes"),
        ("rpc", {"class": "mixed"}, "class is mixed, served is 0, lanes is 0; expected cold if no"),
        ("rpc", {"lanes": 4, "served": 4}, "class is cold, served is 4, lanes is 4; expected cold if no"),
        ("rpc", {"lanes": 4, "served": 3}, "class is cold, served is 3, lanes is 4; expected cold if no"),
        ("rpc", {"attempts": 0}, "attempts is 0; 1 or more expected"),
        ("operations", {"job": 9}, "job is 9; expected the job of the arm: "),
        ("operations", {"start_us": 0}, "start_us is 0; a start is not before its schedule"),
        ("operations", {"end_us": 0}, "end_us is 0; an end is not before its start"),
        ("operations", {"latency_us": 1.0}, "latency_us is 1.0; the latency is from the schedule to the end"),
        ("connections", {"time_us": -5}, "time_us is -5; a time from 0 expected"),
        (
            "updates",
            {"key": 2**64 - 1},
            f"key is {2**64 - 1}; a smaller key expected: it means 'no key' on the wire",
        ),
        ("updates", {"updates": 0}, "updates is 0; 1 or more expected"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(
    golden: GoldenRun, tmp_path: Path, log: str, change: dict[str, object], message: str
) -> None:
    path = broken(golden, tmp_path, log, change)
    result = invoke("logs", "check", path)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {path}, row {ROW}: ") and message in result.output
    assert result.output.count("\n") == 1


def test_wrong_columns_are_named_and_additional_columns_are_accepted(
    golden: GoldenRun, tmp_path: Path
) -> None:
    rows = pl.read_parquet(golden.folder / "connections.parquet")
    path = tmp_path / "connections.parquet"
    rows.with_columns(note=pl.lit("more is no harm")).write_parquet(path)
    assert check(path) == {"connections.parquet": rows.height}
    path.rename(tmp_path / "mine.parquet")
    assert check(tmp_path / "mine.parquet") == {"mine.parquet": rows.height}
    rows.drop("ps").write_parquet(path)
    with pytest.raises(DataError, match=mentions("connections.parquet", "time_us")):
        check(path)
    rows.with_columns(pl.col("ps").cast(pl.Int64)).write_parquet(path)
    with pytest.raises(DataError, match=mentions("connections.parquet", "Int64", "UInt16")):
        check(path)


def test_a_folder_that_lacks_a_log_is_refused(golden: GoldenRun, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(golden.folder, run)
    (run / "operations.parquet").unlink()
    with pytest.raises(DataError, match=mentions("run", "operations.parquet", "rpc.parquet")):
        check(run)


def test_update_logs_that_no_run_has_written_are_checked(tmp_path: Path) -> None:
    pl.DataFrame({"key": [5], "updates": [2]}).write_parquet(tmp_path / "updates.parquet")
    assert check(tmp_path / "updates.parquet") == {"updates.parquet": 1}
    log = tmp_path / "mine.csv"
    log.write_text("iteration,worker,key\n1,1,5\n1,2,5\n")
    result = invoke("logs", "check", log)
    assert (result.exit_code, result.output) == (0, "mine.csv: 2 rows, all valid\n")
    log.write_text("iteration,worker,key\n1,1,5\n1,x,5\n")
    result = invoke("logs", "check", log)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {log}, line 3: column worker is 'x'")
