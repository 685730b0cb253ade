"""Merge the agents' part files: `<log>-<worker|ps>-<number>[-job-<job>]-<part>.parquet`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from foundation.errors import DataError, reason_of
from foundation.logs.columns import LOGS, UPDATES
from foundation.logs.parts import atomic_path

_PART = re.compile(r"(?P<log>\w+)-(?P<agent>(?:worker|ps)-\d+(?:-job-\d+)?)-(?P<part>\d+)\.parquet")

Window = tuple[int, int]
"""First and last time of a window, Unix time in µs, both included."""

OPERATIONS_TIME = "scheduled_us"
_TIMES = {"rpc": "t_send_us", "operations": OPERATIONS_TIME}
"""Column with a row's time, for logs whose last column is `measured`."""


def merge_logs(parts: Path, run: Path, repeated: Sequence[Window] = ()) -> None:
    """Write the four logs of a run from the part files in `parts`, and remove the parts.

    Rows in the windows of `repeated` blocks are marked as not measured. The merge streams, so the logs may be
    larger than memory. A log without parts becomes an empty file. Raises `DataError`, and removes no part, if
    a part lacks a column of its log or a log cannot be written.
    """
    files = sorted(parts.glob("*.parquet"))
    for log, schema in LOGS.items():
        files_of_log = _parts_of(log, files)
        columns = [pl.col(name).cast(dtype) for name, dtype in schema.items()]
        if log in _TIMES:
            columns = [*columns[:-1], is_measured(_TIMES[log], repeated)]
        _merge_files(
            # Counts of updates are cumulative: the last part has all of them.
            _last_parts(files_of_log) if schema is UPDATES else files_of_log,
            schema,
            columns,
            run / f"{log}.parquet",
        )
    for file in files:
        file.unlink()


def is_measured(time: str, repeated: Sequence[Window]) -> pl.Expr:
    in_windows = [pl.col(time).is_between(begin, end) for begin, end in repeated]
    return pl.col("measured") & ~pl.any_horizontal(in_windows) if in_windows else pl.col("measured")


def finish_merge(run: Path) -> None:
    parts = run / "parts"
    if not parts.is_dir():
        return
    # If all logs exist, the parts are merged already; parts written later belong to no log.
    if not all((run / f"{log}.parquet").exists() for log in LOGS):
        merge_logs(parts, run)
    shutil.rmtree(parts)


def last_updates(parts: Path) -> list[Path]:
    """Return the newest update log of each PS; counts are cumulative, so it has the totals."""
    return _last_parts(_parts_of("updates", parts.glob("*.parquet")))


def _parts_of(log: str, files: Iterable[Path]) -> list[Path]:
    return [file for file in files if (match := _PART.fullmatch(file.name)) and match["log"] == log]


def _last_parts(files: list[Path]) -> list[Path]:
    newest: dict[str, tuple[int, Path]] = {}
    for file in files:
        match = _PART.fullmatch(file.name)
        assert match is not None
        candidate = (int(match["part"]), file)
        newest[match["agent"]] = max(candidate, newest.get(match["agent"], candidate))
    return [file for _, file in newest.values()]


def _merge_files(files: list[Path], schema: pl.Schema, columns: list[pl.Expr], target: Path) -> None:
    for file in files:
        try:
            missing = set(schema) - set(pl.read_parquet_schema(file))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{file}: cannot be read as Parquet: {reason_of(error)}") from error
        if missing:
            raise DataError(f"{file}: has no column {', '.join(sorted(missing))}")
    rows = [pl.scan_parquet(file).select(columns) for file in files]
    with atomic_path(target) as partial:
        pl.concat(rows or [pl.LazyFrame(schema=schema)]).sink_parquet(partial)
