"""The updates of each key, counted from logs of any size in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.unique_keys import UNSCORABLE
from foundation.logs.update_log import UNREADABLE, UPDATE_COLUMNS, UpdateLog, first_line
from foundation.protocol.rows import MAX_DIM, describe_long_row
from foundation.text import one_line, pluralize, shortened

PART_ROWS = 20_000_000
"""Maximum number of rows whose keys are counted at a time, which takes some 2 GB if all keys differ."""
_COUNT_COLUMNS = ("key", "updates")
_UPDATES_LIMIT = 2**63
_ROW = "row number"  # no name of a column of logs


def has_columns_of_counts(path: Path) -> bool:
    try:
        return set(_COUNT_COLUMNS) <= set(UpdateLog.open(path).names)
    except DataError:
        return False


def has_columns_of_updates(path: Path) -> bool:
    try:
        return set(UPDATE_COLUMNS) <= set(UpdateLog.open(path).names)
    except DataError:
        return False


def counts_description(path: Path) -> str:
    """Return which columns of an update log are counted, and which are left out."""
    log = _CountedLog.open(path, None)
    left_out = [name for name in log.log.names if name not in log.columns]
    suffix = f"; left out: {shortened(one_line(', '.join(left_out)))}" if left_out else ""
    return f"update log; counted by {', '.join(log.columns)}{suffix}"


@dataclass(frozen=True, slots=True)
class Counts:
    """The update counts in logs; only their totals have been read."""

    names: str
    rows: int
    total: int
    parts: int
    """Number of parts that the keys are divided into; the logs are read once for each part."""
    _read_part: Callable[[int, int], pl.LazyFrame]
    """Returns distinct keys and their updates, given the index of a part and the number of parts; with the
    dims of their rows, if a column of the logs has them."""
    _logs: Sequence[_CountedLog]

    @staticmethod
    def of_logs(
        paths: Sequence[Path], job: int | None = None, dim: str | None = None, *, part_rows: int = PART_ROWS
    ) -> Counts:
        """Return the counts in Parquet or CSV logs.

        A log has the columns key, updates (counts) or iteration, worker, key (one update a row). `job`
        selects the rows of one job, in logs that have the column, and `dim` is a column with the number of
        values of the row that a key names. Raises `DataError`, also if the logs have no update.
        """
        if not paths:
            raise DataError("expected at least one update log, got none: no update was counted")
        names = ", ".join(map(str, paths))
        logs = [_CountedLog.open(path, job, dim) for path in paths]
        rows = pl.concat([log.scan() for log in logs])
        summary = rows.select(
            total=pl.col("updates").sum(),
            magnitude=pl.col("updates").cast(pl.Float64).sum(),
            nulls=pl.any_horizontal(pl.all().is_null()).sum(),
            rows=pl.len(),
        )
        total, magnitude, nulls, length = _collect(summary, names, logs).row(0)
        if nulls:
            problem = f"{pluralize(nulls, 'row has', 'rows have')} an empty column"
            raise DataError(_first_fault(logs) or f"{names}: {problem}")
        _check_dims(rows, names, logs)
        # Sums are of 64 bits and would wrap silently.
        if magnitude >= _UPDATES_LIMIT:
            raise DataError(f"{names}: the updates add up to {magnitude:.4g}; they must stay below 2^63")
        if not total:
            raise DataError(f"{names}: no update{'' if job is None else f' of job {job}'} in it")
        return Counts(names, length, total, length // part_rows + 1, partial(_sums_of_part, rows), logs)

    def by_key(self) -> Iterator[pl.DataFrame]:
        for part in range(self.parts):
            yield self.of_part(part)

    def of_part(self, part: int) -> pl.DataFrame:
        """Return distinct keys, their updates, and `dim` if a column has it; raise `DataError`."""
        rows = self._read_part(part, self.parts).filter(pl.col("updates") > 0)
        counts = _collect(rows, self.names, self._logs)
        if "dim" not in counts.columns:
            return counts
        several = counts.filter(pl.col("dim") != pl.col("other_dim"))
        if several.height:
            key = int(several["key"].min())  # type: ignore[arg-type]  # not null
            raise DataError(_describe_two_dims(self._logs, key))
        return counts.drop("other_dim")

    def order_of(self, keys: NDArray[np.uint64]) -> NDArray[np.uint32] | None:
        """Return the index in `keys`, which ascend, of each update in the order of iteration, worker and key.

        None if a log has counts, without the order of the updates. This needs memory for all rows.
        """
        if not self._has_order:
            return None
        rows = pl.concat([log.scan_updates() for log in self._logs]).sort(UPDATE_COLUMNS).select("key")
        return np.searchsorted(keys, _collect(rows, self.names, self._logs)["key"].to_numpy()).astype(
            np.uint32
        )

    @property
    def _has_order(self) -> bool:
        """Whether each row of the logs is one update."""
        return all(log.columns[: len(UPDATE_COLUMNS)] == UPDATE_COLUMNS for log in self._logs)

    def check_repeats(self, max_updates: int) -> None:
        """Raise `DataError` if each of several rows has another key, given the updates of the hottest key."""
        if self.total > 1 and self._has_order and max_updates == 1:
            raise DataError(
                f"{self.names}: all {self.total:,} keys are distinct, {UNSCORABLE}; expected several updates "
                "of a key in the column key"
            )

    def in_parts(self, minimum: int) -> Counts:
        return replace(self, parts=max(self.parts, minimum))


def _sums_of_part(rows: pl.LazyFrame, part: int, parts: int) -> pl.LazyFrame:
    rows_of_part = rows if parts == 1 else rows.filter(pl.col("key") % parts == part)
    totals = [pl.col("updates").sum()]
    if "dim" in rows.collect_schema():
        totals += [pl.col("dim").min(), pl.col("dim").max().alias("other_dim")]
    return rows_of_part.group_by("key").agg(totals)


def _check_dims(rows: pl.LazyFrame, names: str, logs: Sequence[_CountedLog]) -> None:
    """Raise `DataError` if a row has a dim that no row of the switch can have."""
    if "dim" not in rows.collect_schema():
        return
    is_wrong = ~pl.col("dim").is_between(1, MAX_DIM)
    if _collect(rows.select(is_wrong.any()), names, logs).item():
        for log in logs:
            if found := log.find_dim(~pl.col(str(log.dim)).is_between(1, MAX_DIM)):
                place, value = found
                rule = f"; {describe_long_row(value)}" if value > MAX_DIM else ""
                raise DataError(
                    f"{place}: column {log.dim} is {value}; an integer from 1 to {MAX_DIM} expected{rule}"
                )


def _describe_two_dims(logs: Sequence[_CountedLog], key: int) -> str:
    """Return where a key has another dim than in its first row."""
    of_key, first = pl.col("key") == key, None
    for log in logs:
        if first is None and (found := log.find_dim(of_key)):
            first = found[1]
        if first is not None and (found := log.find_dim(of_key & (pl.col(str(log.dim)) != first))):
            place, dim = found
            expected = f"expected {first}, the dim of key {key} in an earlier row"
            return f"{place}: column {log.dim} is {dim}; {expected}"
    raise AssertionError(f"key {key} has one dim")


def _collect(frame: pl.LazyFrame, names: str, logs: Sequence[_CountedLog]) -> pl.DataFrame:
    try:
        return frame.collect(engine="streaming")
    except UNREADABLE as error:
        raise DataError(_first_fault(logs) or f"{names}: cannot be read: {first_line(error)}") from error


def _first_fault(logs: Sequence[_CountedLog]) -> str | None:
    return next((fault for log in logs if (fault := log.log.fault(log.columns))), None)


@dataclass(frozen=True, slots=True)
class _CountedLog:
    log: UpdateLog
    columns: tuple[str, ...]
    job: int | None
    dim: str | None = None
    """Column with the dims of the rows that keys name."""

    @staticmethod
    def open(path: Path, job: int | None, dim: str | None = None) -> _CountedLog:
        log = UpdateLog.open(path)
        columns = next(
            (form for form in (_COUNT_COLUMNS, UPDATE_COLUMNS) if set(form) <= set(log.names)), None
        )
        if columns is None:
            raise DataError(
                f"{path}: has the columns {shortened(one_line(', '.join(log.names)))}; "
                "an update log has key, updates or iteration, worker, key"
            )
        if dim is not None and dim not in log.names and dim.isdecimal() and 1 <= int(dim) <= len(log.names):
            dim = log.names[int(dim) - 1]
        if dim is not None and dim not in log.names:
            names = shortened(one_line(", ".join(log.names)))
            raise DataError(
                f"{path}: expected a column {dim!r} (--columns dim={dim}), got the columns {names}"
            )
        if job is not None and "job" not in log.names:
            raise DataError(f"{path}: has no column job, so job {job} cannot be selected")
        optional = [name for name in ("job" if job is not None else None, dim) if name is not None]
        return _CountedLog(log, tuple(dict.fromkeys((*columns, *optional))), job, dim)

    def scan_updates(self) -> pl.LazyFrame:
        return self._of_job(self.log.scan(self.columns))

    def _of_job(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        if self.job is None:
            return rows
        # Rows without a job stay, too, so that they are reported.
        return rows.filter((pl.col("job") == self.job) | pl.col("job").is_null())

    def scan(self) -> pl.LazyFrame:
        rows = self.scan_updates()
        # The updates of an incomplete row become null, which `of_logs` reports.
        count = pl.col("updates") if "updates" in self.columns else pl.lit(1, pl.UInt64)
        is_complete = pl.all_horizontal(pl.col(name).is_not_null() for name in self.columns)
        counted: dict[str, pl.Expr] = {"updates": pl.when(is_complete).then(count)}
        if self.dim is not None:
            counted["dim"] = pl.col(self.dim)
        return rows.select("key", **counted)

    def find_dim(self, condition: pl.Expr) -> tuple[str, int] | None:
        """Return the place in the file and the dim of the first row for which a condition holds, or None."""
        rows = self._of_job(self.log.scan(self.columns).with_row_index(_ROW, 1))
        first = rows.filter(condition).head(1).collect(engine="streaming")
        if not first.height:
            return None
        return f"{self.log.path}, {self.log.place_of(first[_ROW][0])}", int(first[str(self.dim)][0])
