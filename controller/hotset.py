"""Update logs -> hot set: the top-k parameters by number of updates, with their lanes.

A hot set is a Parquet file with the columns of `SCHEMA`, most updated key first. [DDL] Fig. 10 is the
reason that it pays: the top 20,000 parameters take 50 % (R1) to 70 % (R2) of all updates.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from common.words import counted
from controller.errors import HotSetError
from controller.tables import SLOTS
from logs.errors import DataError
from logs.update_log import PARQUET_MAGIC, UPDATES, UpdateLog, first_line, read_head
from protocol.hashing import lanes_of
from protocol.header import LANES, NO_KEY

log = logging.getLogger(__name__)

SCHEMA: dict[str, type[pl.DataType]] = {
    "rank": pl.UInt32,
    "key": pl.UInt64,
    "updates": pl.UInt64,
    "share": pl.Float64,
    "lane": pl.UInt8,
}
MOST_KEYS = LANES * SLOTS
"""Keys that the switch has slots for."""
_COUNTS = ("key", "updates")
_MOST_UPDATES = 2**63
_PART_ROWS = 20_000_000
"""Rows whose keys are counted at a time; some 2 GB when all differ."""


def build(
    logs: Sequence[Path], top_k: int, job: int | None = None, *, part_rows: int = _PART_ROWS
) -> pl.DataFrame:
    """The `top_k` most updated keys of all `logs` added up; ties go to the smaller key.

    A log is Parquet or CSV with either the columns key, updates (counts) or iteration, worker, key (one
    update a row). `job` keeps only the rows of that job, of logs that have the column. Logs may be larger
    than memory. Raises `DataError`, and `HotSetError` when no switch could hold the hot set.
    """
    if top_k > MOST_KEYS:
        raise HotSetError(
            f"top-k {top_k} is too large: the switch has {LANES} lanes of {SLOTS} slots, "
            f"so at most {MOST_KEYS} keys fit"
        )
    names = ", ".join(map(str, logs))
    opened = [_Counted.open(path, job) for path in logs]
    rows = pl.concat([log.scan() for log in opened])
    summary = rows.select(
        total=pl.col("updates").sum(),
        magnitude=pl.col("updates").cast(pl.Float64).sum(),
        nulls=pl.any_horizontal(pl.all().is_null()).sum(),
        parts=pl.len() // part_rows + 1,
    )
    try:
        total, magnitude, nulls, parts = summary.collect(engine="streaming").row(0)
        if nulls:
            empty = f"{counted(nulls, 'row has', 'rows have')} an empty column"
            raise DataError(_fault(opened) or f"{names}: {empty}")
        # Sums are of 64 bits and would wrap silently.
        if magnitude >= _MOST_UPDATES:
            raise DataError(f"{names}: the updates add up to {magnitude:.4g}; they must stay below 2^63")
        # A part of the keys at a time, so that memory does not grow with the logs.
        tops = [
            _top(rows.filter(pl.col("key") % parts == part), top_k).collect(engine="streaming")
            for part in range(parts)
        ]
    except pl.exceptions.PolarsError as error:
        raise DataError(_fault(opened) or f"{names}: cannot be read: {first_line(error)}") from error
    hot = _top(pl.concat(tops).lazy(), top_k).collect()
    if not hot.height:
        raise DataError(f"{names}: no update{'' if job is None else f' of job {job}'} in it")
    if hot.height < top_k:
        found = counted(hot.height, "key has", "keys have")
        log.warning("only %s updates, fewer than the %d asked for", found, top_k)
    return _check(
        hot.select(
            rank=pl.int_range(1, pl.len() + 1, dtype=pl.UInt32),
            key="key",
            updates="updates",
            share=pl.col("updates") / total,
            lane=pl.Series(lanes_of(hot["key"].to_numpy()), dtype=pl.UInt8),
        ),
        names,
    )


def check_output(path: Path, logs: Sequence[Path]) -> None:
    """Raise `HotSetError` where writing a hot set to `path` would destroy one of the logs, or a device."""
    try:
        for target in (path, _partial(path)):
            if target.exists() and not target.is_file():
                raise HotSetError(f"{target}: not a regular file; a hot set cannot be written there")
            for log_path in logs:
                if target.exists() and log_path.exists() and target.samefile(log_path):
                    raise HotSetError(
                        f"{path}: writing it would overwrite the log {log_path}; choose another name"
                    )
    except OSError as error:
        raise HotSetError(f"{path}: cannot be written: {error.strerror or error}") from error


def write(hot: pl.DataFrame, path: Path) -> None:
    """Write a hot set; readers see the old file or the whole new one. Raises `HotSetError`."""
    partial = _partial(path)
    try:
        hot.write_parquet(partial)
        partial.replace(path)
    except OSError as error:
        raise HotSetError(f"{path}: cannot be written: {error.strerror or error}") from error


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def read(path: Path) -> pl.DataFrame:
    """Read and check a hot set. Raises `HotSetError`."""
    try:
        is_parquet = read_head(path).startswith(PARQUET_MAGIC)
    except DataError as error:
        raise HotSetError(str(error)) from error
    if not is_parquet:
        raise HotSetError(f"{path}: not a Parquet file; `hotline hotset build` writes hot sets")
    try:
        hot = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise HotSetError(f"{path}: cannot be read: {first_line(error)}") from error
    if dict(hot.schema) != SCHEMA:
        raise HotSetError(f"{path}: has the columns {_columns(hot.schema)}; a hot set has {_columns(SCHEMA)}")
    if hot.is_empty():
        raise HotSetError(f"{path}: has no keys; to take all keys of a job home, use `hotline unload`")
    return _check(hot, str(path))


def _check(hot: pl.DataFrame, origin: str) -> pl.DataFrame:
    for column in hot:
        if column.null_count():
            row = int(np.argmax(column.is_null().to_numpy())) + 1
            raise HotSetError(f"{origin}: row {row} has no {column.name}")
    if not hot["share"].is_between(0, 1).all():
        wrong_share = hot.filter(~pl.col("share").is_between(0, 1)).row(0, named=True)
        raise HotSetError(
            f"{origin}: the share of key {wrong_share['key']} is {wrong_share['share']}; it is from 0 to 1"
        )
    keys = hot["key"]
    repeated = hot.filter(keys.is_duplicated())["key"]
    if len(repeated):
        raise HotSetError(f"{origin}: key {repeated[0]} is there more than once; keys must differ")
    if keys.max() == NO_KEY:
        raise HotSetError(f"{origin}: key {NO_KEY} means 'no key' on the wire; it cannot be hot")
    lanes = lanes_of(keys.to_numpy())
    wrong = np.flatnonzero(lanes != hot["lane"].to_numpy())
    if wrong.size:
        first = int(wrong[0])
        raise HotSetError(
            f"{origin}: key {keys[first]} has lane {hot['lane'][first]}; it is lane {lanes[first]}"
        )
    return hot


def _top(rows: pl.LazyFrame, top_k: int) -> pl.LazyFrame:
    return (
        rows.group_by("key")
        .agg(pl.col("updates").sum())
        .filter(pl.col("updates") > 0)
        .sort(["updates", "key"], descending=[True, False])
        .head(top_k)
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """A log, the columns that are read of it, and the job whose rows are."""

    log: UpdateLog
    columns: tuple[str, ...]
    job: int | None

    @staticmethod
    def open(path: Path, job: int | None) -> _Counted:
        log = UpdateLog.open(path)
        columns = next((form for form in (_COUNTS, UPDATES) if set(form) <= set(log.names)), None)
        if columns is None:
            raise DataError(
                f"{path}: has the columns {_shortened(', '.join(log.names))}; "
                "an update log has key, updates or iteration, worker, key"
            )
        if job is None:
            return _Counted(log, columns, job)
        if "job" not in log.names:
            raise DataError(f"{path}: has no column job, so job {job} cannot be picked out of it")
        return _Counted(log, (*columns, "job"), job)

    def scan(self) -> pl.LazyFrame:
        """Rows of key and updates, not read yet; updates are null where any column is."""
        rows = self.log.scan(self.columns)
        if self.job is not None:
            rows = rows.filter((pl.col("job") == self.job) | pl.col("job").is_null())
        count = pl.col("updates") if "updates" in self.columns else pl.lit(1, pl.UInt64)
        whole = pl.all_horizontal(pl.col(name).is_not_null() for name in self.columns)
        return rows.select("key", updates=pl.when(whole).then(count))


def _fault(logs: Sequence[_Counted]) -> str | None:
    return next((fault for log in logs if (fault := log.log.fault(log.columns))), None)


def _columns(schema: pl.Schema | dict[str, type[pl.DataType]]) -> str:
    return _shortened(", ".join(f"{name} ({type_})" for name, type_ in schema.items()))


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "..."
