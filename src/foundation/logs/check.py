"""Check that the values of a log are valid for its columns, row by row in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from foundation.designs.arms import all_arms
from foundation.errors import DataError
from foundation.logs.columns import LOGS, METRICS
from foundation.logs.counts import Counts
from foundation.logs.update_log import UpdateLog, reading
from foundation.protocol.header import LANES, NO_KEY

_ROUNDING = 2**-20  # relative error of a sum of 32-bit floats
_ROUNDING_US = 1.0  # error of a difference of two whole numbers of µs


@dataclass(frozen=True, slots=True)
class LogRule:
    expected: str
    holds: pl.Expr
    columns: Sequence[str]


def check(path: Path) -> dict[str, int]:
    # Return the number of rows of each log, by file name.
    if not path.is_dir():
        return {path.name: _check_file(path)}
    files = [path / f"{name}.parquet" for name in LOGS]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise DataError(
            f"{path}: has no {missing[0]}; a run folder has {', '.join(file.name for file in files)}"
        )
    return {file.name: _check_file(file) for file in files}


def _check_file(path: Path) -> int:
    log = UpdateLog.open(path)
    name = _log_name(path, log)
    if name is None:
        return Counts.of_logs([path]).rows  # counting updates checks them
    with reading(path):
        rows = pl.scan_parquet(path, glob=False)
        _check_columns(path, rows.collect_schema(), LOGS[name])
        _check_rows(path, rows.select(LOGS[name].names()), _rules(name))
        return int(rows.select(pl.len()).collect().item())


def _log_name(path: Path, log: UpdateLog) -> str | None:
    if not log.is_parquet:
        return None
    by_columns = [name for name, columns in LOGS.items() if set(columns) <= set(log.names)]
    # A log with the column `key` is an update log, even if its file is named as another log.
    by_file_name = [path.stem] if path.stem in LOGS and "key" not in log.names else []
    return next(iter(by_columns + by_file_name), None)


def _check_columns(
    path: Path, types: Mapping[str, pl.DataType], expected_types: Mapping[str, pl.DataType]
) -> None:
    for name, kind in expected_types.items():
        if name not in types:
            raise DataError(f"{path}: has no column {name}; expected the columns {', '.join(expected_types)}")
        if not _has_type(types[name], kind):
            raise DataError(f"{path}: column {name} is {types[name]}; {kind} expected")


def _has_type(column_type: pl.DataType, expected_type: pl.DataType) -> bool:
    return column_type == expected_type or (
        expected_type == pl.Categorical and isinstance(column_type, pl.Enum)
    )


def _check_rows(path: Path, rows: pl.LazyFrame, rules: Sequence[LogRule]) -> None:
    is_bad = pl.any_horizontal(~rule.holds.fill_null(False) for rule in rules)
    first_bad_row = rows.with_row_index("row", 1).filter(is_bad).head(1).collect(engine="streaming")
    for row in first_bad_row.iter_rows(named=True):
        rule = next(rule for rule in rules if not first_bad_row.select(rule.holds.fill_null(False)).item())
        values = ", ".join(f"{name} is {row[name]}" for name in rule.columns)
        raise DataError(f"{path}, row {row['row']}: {values}; {rule.expected}")


def _rules(log: str) -> list[LogRule]:
    not_null = [LogRule("a value expected", pl.col(name).is_not_null(), [name]) for name in LOGS[log]]
    return not_null + ([_job_rule()] if "arm" in LOGS[log] else []) + _RULES[log]


def _job_rule() -> LogRule:
    jobs = {arm.name: arm.job for arm in all_arms().values()}
    job = pl.col("arm").cast(pl.String).replace_strict(jobs, default=None, return_dtype=pl.Int64)
    return LogRule(f"expected the job of the arm: {jobs}", job == pl.col("job"), ["arm", "job"])


def _time_rule(name: str, minimum: float = 0.0) -> LogRule:
    expected = "a finite time expected" if minimum < 0 else "a finite time from 0 expected"
    return LogRule(expected, pl.col(name).is_finite() & (pl.col(name) >= minimum), [name])


_METRICS_US = [f"{metric}_us" for metric in METRICS]
_SUM_OF_METRICS = pl.sum_horizontal(pl.col(name).cast(pl.Float64) for name in _METRICS_US)
_CLASS = pl.col("class").cast(pl.String)
_RULES = {
    "rpc": [
        *map(_time_rule, (*_METRICS_US, "switch_us", "latency_us")),
        LogRule(
            f"the latency is the sum of {', '.join(_METRICS_US)}",
            (_SUM_OF_METRICS - pl.col("latency_us")).abs() <= pl.col("latency_us") * _ROUNDING,
            [*_METRICS_US, "latency_us"],
        ),
        LogRule(f"at most {LANES} lanes", pl.col("lanes") <= LANES, ["lanes"]),
        LogRule("expected served <= lanes", pl.col("served") <= pl.col("lanes"), ["served", "lanes"]),
        LogRule(
            "expected cold if no lane is served, all_hit if all are, else mixed",
            pl.when(pl.col("served") == 0)
            .then(_CLASS == "cold")
            .when(pl.col("served") == pl.col("lanes"))
            .then(_CLASS == "all_hit")
            .otherwise(_CLASS == "mixed"),
            ["class", "served", "lanes"],
        ),
        LogRule("1 or more expected", pl.col("attempts") >= 1, ["attempts"]),
    ],
    "operations": [
        LogRule("a start is not before its schedule", pl.col("start_us") >= pl.col("scheduled_us"),
             ["scheduled_us", "start_us"]),
        LogRule("an end is not before its start", pl.col("end_us") >= pl.col("start_us"),
             ["start_us", "end_us"]),
        LogRule(
            "the latency is from the schedule to the end",
            (pl.col("end_us") - pl.col("scheduled_us") - pl.col("latency_us").cast(pl.Float64)).abs()
            <= _ROUNDING_US + pl.col("latency_us") * _ROUNDING,
            ["scheduled_us", "end_us", "latency_us"],
        ),
    ],
    "connections": [LogRule("a time from 0 expected", pl.col("time_us") >= 0, ["time_us"])],
    "updates": [
        LogRule("a smaller key expected: it means 'no key' on the wire", pl.col("key") < NO_KEY, ["key"]),
        LogRule("1 or more expected", pl.col("updates") >= 1, ["updates"]),
    ],
}  # fmt: skip
