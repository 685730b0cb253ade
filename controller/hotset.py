"""Update logs -> hot set: the top-k parameters by number of updates, with their lanes.

A hot set is a Parquet file with the columns of `SCHEMA`, most updated key first. [DDL] Fig. 10 is the
reason that it pays: the top 20,000 parameters take 50 % (R1) to 70 % (R2) of all updates.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from controller.errors import HotSetError, LogError
from hosts.wire.hashing import lanes_of
from hosts.wire.header import NO_KEY

log = logging.getLogger(__name__)

SCHEMA: dict[str, type[pl.DataType]] = {
    "rank": pl.UInt32,
    "key": pl.UInt64,
    "updates": pl.UInt64,
    "share": pl.Float64,
    "lane": pl.UInt8,
}
_COUNTS = {"key", "updates"}
_RAW = {"iteration", "worker", "key"}
_PARQUET_MAGIC = b"PAR1"
_PART_ROWS = 20_000_000
"""Rows whose keys are counted at a time; some 2 GB when all differ."""


def build(
    logs: Sequence[Path], top_k: int, job: int | None = None, *, part_rows: int = _PART_ROWS
) -> pl.DataFrame:
    """The `top_k` most updated keys of all `logs` added up; ties go to the smaller key.

    A log is Parquet or CSV with either the columns key, updates (counts) or iteration, worker, key (one
    update a row). `job` keeps only the rows of that job, of logs that have the column. Logs may be larger
    than memory. Raises `LogError`.
    """
    names = ", ".join(map(str, logs))
    rows = pl.concat([_scan(path, job) for path in logs])
    summary = rows.select(
        total=pl.col("updates").sum(),
        nulls=pl.any_horizontal(pl.all().is_null()).sum(),
        parts=pl.len() // part_rows + 1,
    )
    try:
        total, nulls, parts = summary.collect(engine="streaming").row(0)
        if nulls:
            raise LogError(f"{names}: {nulls} rows have no key or no count")
        # A part of the keys at a time, so that memory does not grow with the logs.
        tops = [
            _top(rows.filter(pl.col("key") % parts == part), top_k).collect(engine="streaming")
            for part in range(parts)
        ]
    except pl.exceptions.PolarsError as error:
        raise LogError(f"{names}: cannot be read: {_first_line(error)}") from error
    hot = _top(pl.concat(tops).lazy(), top_k).collect()
    if not hot.height:
        raise LogError(f"{names}: no update{'' if job is None else f' of job {job}'} in it")
    if hot.height < top_k:
        log.warning("only %d keys have updates, fewer than the %d asked for", hot.height, top_k)
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


def write(hot: pl.DataFrame, path: Path) -> None:
    """Write a hot set; readers see the old file or the whole new one. Raises `HotSetError`."""
    partial = path.with_name(path.name + ".partial")
    try:
        hot.write_parquet(partial)
        partial.replace(path)
    except OSError as error:
        raise HotSetError(f"{path}: cannot be written: {error.strerror or error}") from error


def read(path: Path) -> pl.DataFrame:
    """Read and check a hot set. Raises `HotSetError`."""
    if not _is_parquet(path, HotSetError):
        raise HotSetError(f"{path}: not a Parquet file; `hotline hotset build` writes hot sets")
    try:
        hot = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise HotSetError(f"{path}: cannot be read: {_first_line(error)}") from error
    if dict(hot.schema) != SCHEMA:
        raise HotSetError(f"{path}: has the columns {_columns(hot.schema)}; a hot set has {_columns(SCHEMA)}")
    return _check(hot, str(path))


def _check(hot: pl.DataFrame, origin: str) -> pl.DataFrame:
    keys = hot["key"]
    if keys.null_count():
        raise HotSetError(f"{origin}: {keys.null_count()} rows have no key")
    repeated = hot.filter(keys.is_duplicated())["key"]
    if len(repeated):
        raise HotSetError(f"{origin}: key {repeated[0]} is there more than once; keys must differ")
    if keys.max() == NO_KEY:
        raise HotSetError(f"{origin}: key {NO_KEY} means 'no key' on the wire; it cannot be hot")
    lanes = lanes_of(keys.to_numpy())
    wrong = np.flatnonzero(lanes != hot["lane"].fill_null(255).to_numpy())
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


def _scan(path: Path, job: int | None) -> pl.LazyFrame:
    """A log as rows of key and updates, not read yet."""
    types = {"key": pl.UInt64, "updates": pl.UInt64}
    try:
        parquet = _is_parquet(path, LogError)
        frame = pl.scan_parquet(path) if parquet else pl.scan_csv(path, schema_overrides=types)
        schema = frame.collect_schema()
    except pl.exceptions.PolarsError as error:
        raise LogError(f"{path}: cannot be read: {_first_line(error)}") from error
    if schema.keys() >= _COUNTS:
        updates = pl.col("updates").cast(pl.UInt64)
    elif schema.keys() >= _RAW:
        updates = pl.lit(1, pl.UInt64).alias("updates")
    else:
        raise LogError(
            f"{path}: has the columns {_columns(schema)}; "
            "an update log has key, updates or iteration, worker, key"
        )
    if job is not None:
        if "job" not in schema:
            raise LogError(f"{path}: has no column job, so job {job} cannot be picked out of it")
        frame = frame.filter(pl.col("job") == job)
    return frame.select(pl.col("key").cast(pl.UInt64), updates)


def _is_parquet(path: Path, error_type: type[LogError | HotSetError]) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    except OSError as error:
        raise error_type(f"{path}: cannot be read: {error.strerror or error}") from error


def _columns(schema: pl.Schema | dict[str, type[pl.DataType]]) -> str:
    text = ", ".join(f"{name} ({type_})" for name, type_ in schema.items())
    return text if len(text) <= 200 else text[:200] + "..."


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
