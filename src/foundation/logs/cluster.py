"""Logs of a real cluster, as CSV or Parquet with the columns of Pan et al. §2.2: one row an RPC.

Files are DIR/rpc.csv or DIR/rpc.parquet, and optionally `connections` and `updates` beside it. docs/logs.md
lists their columns, docs/design.md cites the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from foundation.errors import DataError
from foundation.logs.columns import METRICS, TRANSFERS
from foundation.logs.counts import Counts
from foundation.logs.parts import atomic_path
from foundation.logs.plausibility import check_units
from foundation.logs.update_log import UpdateLog, reading

CLUSTER = "cluster"
"""Name of the arm of RPCs in logs without a column `arm`."""
_NAME_COLUMNS = ("worker", "ps")
_TIME_COLUMNS = tuple(f"{metric}_us" for metric in METRICS)
RPC = (*_NAME_COLUMNS, "iteration", "op", "t_send_us", "request_bytes", "response_bytes", *_TIME_COLUMNS)
CONNECTIONS = ("time_us", "ps", "worker")
_SUFFIXES = (".parquet", ".csv")


@dataclass(frozen=True, slots=True)
class ClusterLogs:
    folder: Path
    rpc: pl.LazyFrame
    """Columns `RPC`, `arm`, `latency_us`: names are text, times 64-bit floats, all else 64-bit integers."""
    connections: pl.LazyFrame | None
    updates: Sequence[Path]


def open_cluster(folder: Path, scratch: Path) -> ClusterLogs:
    file = _find_log(folder, "rpc")
    if file is None:
        raise DataError(f"{folder}: has neither rpc.parquet nor rpc.csv; one row an RPC is expected there")
    rpc = _open_log(file, scratch, RPC).with_columns(latency_us=pl.sum_horizontal(_TIME_COLUMNS))
    check_units(file, rpc)
    connections = _find_log(folder, "connections")
    updates = _find_log(folder, "updates")
    if updates is not None:
        Counts.of_logs([updates])  # raises `DataError` for a bad log
    return ClusterLogs(
        folder,
        rpc,
        None if connections is None else _open_log(connections, scratch, CONNECTIONS),
        [] if updates is None else [updates],
    )


def _find_log(folder: Path, log: str) -> Path | None:
    return next((file for suffix in _SUFFIXES if (file := folder / f"{log}{suffix}").exists()), None)


def _open_log(file: Path, scratch: Path, columns: Sequence[str]) -> pl.LazyFrame:
    log = UpdateLog.open(file)
    missing = [name for name in columns if name not in log.names]
    if missing:
        raise DataError(
            f"{file}: has no column {', '.join(missing)}; expected the columns {', '.join(columns)}"
        )
    selected_columns = [*columns, *(["arm"] if "arm" in log.names else [])]
    raw = (
        pl.scan_parquet(file, glob=False)
        if log.is_parquet
        else pl.scan_csv(file, glob=False, infer_schema=False)
    )
    with reading(file):
        typed = raw.select(_cast_column(name) for name in selected_columns)
        _check_values(file, raw.select(selected_columns), typed, log.is_parquet)
        if not log.is_parquet:
            target = scratch / f"{file.stem}.parquet"
            with atomic_path(target) as partial:
                typed.sink_parquet(partial)
            typed = pl.scan_parquet(target)
    return typed if "arm" in selected_columns else typed.with_columns(arm=pl.lit(CLUSTER))


def _cast_column(name: str) -> pl.Expr:
    column = pl.col(name)
    if name in (*_NAME_COLUMNS, "op", "arm"):
        return column.cast(pl.String)
    return column.cast(pl.Float64 if name in _TIME_COLUMNS else pl.Int64, strict=False)


def _rule_of(name: str) -> tuple[pl.Expr, str]:
    column = pl.col(name)
    if name in (*_NAME_COLUMNS, "arm"):
        return column.str.len_chars() > 0, "a name or a number expected"
    if name == "op":
        return column.is_in(TRANSFERS), f"{' or '.join(TRANSFERS)} expected"
    if name in _TIME_COLUMNS:
        return column.is_finite() & (column >= 0), "a time in µs from 0 expected"
    unit = "µs" if name.endswith("_us") else "bytes" if name.endswith("_bytes") else "steps"
    return column >= 0, f"a whole number of {unit} from 0 expected"


def _check_values(file: Path, raw: pl.LazyFrame, typed: pl.LazyFrame, is_parquet: bool) -> None:
    names = typed.collect_schema().names()
    bad_values = [(~_rule_of(name)[0].fill_null(False)).alias(name) for name in names]
    faults = typed.select(bad_values).with_row_index("row")
    first_bad_row = faults.filter(pl.any_horizontal(names)).head(1).collect(engine="streaming")
    for row in first_bad_row.iter_rows(named=True):
        name = next(name for name in names if row[name])
        value = raw.select(name).slice(row["row"], 1).collect().item()
        location = f"row {row['row'] + 1}" if is_parquet else f"line {row['row'] + 2}"  # line 1 is the header
        value_text = "empty" if value is None else repr(value)
        raise DataError(f"{file}, {location}: column {name} is {value_text}; {_rule_of(name)[1]}")
    if typed.select(pl.len()).collect().item() == 0:
        raise DataError(f"{file}: has no row")
