"""Choose a hot set from update logs: the top-k parameters by number of updates, or those of another rule.

A hot set is a Parquet file with the columns of `SCHEMA`, the most wanted key first. `dim` is the number of
values of the key's row as RPCs carry it, and `lane` the lane of a row of that dim. In Pan et al. Fig. 10,
the top 20,000 parameters take 50 % (R1) to 70 % (R2) of all updates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from controller.dask_cluster import CountingCluster, cluster_at, count_threads
from controller.errors import HotSetError, RuleError
from controller.hotset.rules import MAX_ORDERED, TOP_K, PeriodUpdates, RuleName, RunningRule, start_rule
from controller.sizes import SLOTS
from foundation.errors import DataError
from foundation.logs.access.column_roles import AccessColumns, parse_columns
from foundation.logs.access.dims import (
    RowDim,
    as_parts,
    check_one_source_of_dims,
    padded_dims,
    parse_dims,
)
from foundation.logs.counts import PART_ROWS, Counts
from foundation.logs.parts import atomic_path
from foundation.logs.update_log import PARQUET_MAGIC, read_head, reading
from foundation.protocol.header import DIMS, LANES, NO_KEY, padded_dim
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges, banks_of_row, dims_in, lanes_of_rows
from foundation.settings import JobId, Strict
from foundation.text import pluralize, shortened

log = logging.getLogger(__name__)

SCHEMA: dict[str, type[pl.DataType]] = {
    "rank": pl.UInt32,
    "key": pl.UInt64,
    "updates": pl.UInt64,
    "share": pl.Float64,
    "dim": pl.UInt8,
    "lane": pl.UInt8,
}
MAX_KEYS = LANES * SLOTS
"""Maximum number of rows in the switch, whatever their dims."""
_PARTS_PER_THREAD = 4
"""Parts of the logs for each thread of a cluster; several, because parts take different times."""

KeyDims: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(as_parts),
    Field(
        description="Values of a row by the first key that has as many, such as 0=16,1000000=64 for tables "
        "one after the other; keys before the first have rows of --dim."
    ),
]

DimColumn: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(as_parts),
    Field(description="Column of the logs with the values of the row that a key names, such as dim=COLUMN."),
]

T = TypeVar("T")
Progress = Callable[[int, int], None]


class ChoiceSettings(Strict):
    top_k: int = Field(ge=1)
    """Number of keys."""
    dim: RowDim = None
    dims: KeyDims = ()
    columns: DimColumn = ()
    job: JobId | None = None
    """Only the rows of this job."""
    rule: RuleName = TOP_K
    scheduler: CountingCluster = None

    @property
    def dim_column(self) -> str | None:
        """The column of the logs that has the dims of rows, or None; raises `DataError`."""
        if not self.columns:
            return None
        columns = parse_columns(",".join(self.columns))
        if columns.dim is None or columns != AccessColumns(dim=columns.dim):
            raise DataError(
                f"--columns {','.join(self.columns)}: expected dim=COLUMN, as the other columns of an update "
                "log have fixed names"
            )
        check_one_source_of_dims(columns.dim, self.dim, self.dims)
        return columns.dim

    @property
    def ranges(self) -> RowRanges:
        """The ranges of keys by the dim of their rows; raises `DataError`."""
        first_dims = {0: padded_dim(self.dim or 1)}
        for key, dim in parse_dims(self.dims, "KEY").items():
            if not (key.isascii() and key.isdecimal() and int(key) < NO_KEY):
                raise DataError(
                    f"--dims {key}={dim}: expected KEY=DIM with a key below 2^64 - 1, got {key!r}"
                )
            first_dims[int(key)] = padded_dim(dim)
        return tuple(map(RowRange._make, sorted(first_dims.items())))


def build(
    logs: Sequence[Path],
    top_k: int,
    job: int | None = None,
    *,
    rule: str = TOP_K,
    scheduler: str | None = None,
    part_rows: int = PART_ROWS,
    ranges: RowRanges = ONE_VALUE,
    dim_column: str | None = None,
) -> pl.DataFrame:
    """Return at most `top_k` keys that a rule chooses by the updates in all `logs`, or of one `job` in them.

    Columns are in `SCHEMA`. `ranges` has the dims of the keys' rows, unless `dim_column`, a column of the
    logs, has them. The rule `top-k` returns the most updated keys, the smaller of equal ones first, and
    counts in parts of bounded memory or on a cluster at the address `scheduler` (`reduce_parts`). Raises
    `DataError` for an unreadable log (`Counts.of_logs`), `HotSetError` if no switch can hold the hot set, and
    `RuleError`.
    """
    if dim_column is None and len(ranges) == 1:
        _check_size(top_k, np.array([ranges[0].dim]))  # before the logs are read
    if rule != TOP_K:
        if scheduler is not None:
            raise RuleError(f"rule {rule}: a cluster counts for rule {TOP_K} only; leave out --scheduler")
        running_rule = start_rule(rule, top_k)
        counts = Counts.of_logs(logs, job, dim_column, part_rows=part_rows)
        return _choose_by_rule(running_rule, counts, ranges)
    counts = Counts.of_logs(logs, job, dim_column, part_rows=part_rows)
    top_keys_by_part = reduce_parts(
        counts, partial(select_top_keys, top_k=top_k), scheduler, lambda done, total: None
    )
    top_keys = pl.concat(top_keys_by_part)
    counts.check_repeats(int(top_keys["updates"].max()))  # type: ignore[arg-type]  # not empty
    return _make_hot_set(top_keys, top_k, counts.total, counts.names, ranges)


def _check_size(top_k: int, dims: NDArray[np.integer]) -> None:
    """Raise `HotSetError` if the switch has no slots for `top_k` rows; `dims` are those of the first ones."""
    slots = np.cumsum([banks_of_row(dim) for dim in dims.tolist()])
    room = int(np.searchsorted(slots, MAX_KEYS, side="right"))
    distinct_dims = np.unique(dims).tolist()
    if room == len(dims):
        room = MAX_KEYS // banks_of_row(distinct_dims[0])
    if top_k > room:
        rows = "keys" if distinct_dims == [1] else f"rows of {' and '.join(map(str, distinct_dims))} values"
        raise HotSetError(
            f"top-k {top_k} is too large: the switch has {LANES} banks of {SLOTS} slots, so at most {room} "
            f"{rows} fit"
        )


def choose(updates: pl.DataFrame, top_k: int, origin: str, ranges: RowRanges = ONE_VALUE) -> pl.DataFrame:
    """Return the hot set of counted updates, with the columns key and updates, as `build` does.

    A column dim has the dims of the keys' rows, instead of `ranges`.
    """
    return _make_hot_set(updates, top_k, int(updates["updates"].sum()), origin, ranges)


def _make_hot_set(
    updates: pl.DataFrame, top_k: int, total: int, origin: str, ranges: RowRanges
) -> pl.DataFrame:
    hot_set = select_top_keys(updates, top_k)
    if hot_set.is_empty():
        raise HotSetError(f"{origin}: expected keys with updates for a hot set, got none")
    if hot_set.height < top_k:
        keys_with_updates = pluralize(hot_set.height, "key has", "keys have")
        log.warning("only %s updates, fewer than the %d asked for", keys_with_updates, top_k)
    return _with_ranks(hot_set, top_k, total, origin, ranges)


def describe_fewer_keys(keys: int, top_k: int) -> str:
    """Return a note on a hot set that has all `keys` it is chosen from, and fewer than were asked for."""
    with_updates = pluralize(keys, "key has", "keys have")
    return (
        f"only {with_updates} updates in what the hot set is chosen from, so it has {keys:,} instead of "
        f"{top_k:,} (--top-k)"
    )


def _choose_by_rule(rule: RunningRule, counts: Counts, ranges: RowRanges) -> pl.DataFrame:
    updates = pl.concat(counts.by_key()).sort("key")
    counts.check_repeats(int(updates["updates"].max()))  # type: ignore[arg-type]  # not empty
    keys = updates["key"].to_numpy()
    order = counts.order_of(keys) if counts.rows <= MAX_ORDERED else None
    period = PeriodUpdates(
        keys, updates["updates"].to_numpy().astype(np.int64), np.empty(0, np.uint64), order
    )
    chosen_keys = rule.choose(period)
    if not len(chosen_keys):
        raise RuleError(
            f"rule {rule.name} chose none of {pluralize(len(keys), 'key')}: a hot set has at least one"
        )
    chosen = updates[np.searchsorted(keys, chosen_keys)]
    return _with_ranks(chosen, rule.top_k, counts.total, counts.names, ranges)


def _with_ranks(
    hot_set: pl.DataFrame, top_k: int, total: int, origin: str, ranges: RowRanges
) -> pl.DataFrame:
    keys = hot_set["key"].to_numpy()
    dims = padded_dims(hot_set["dim"].to_numpy()) if "dim" in hot_set.columns else dims_in(ranges, keys)
    _check_size(top_k, dims)
    return _check_hot_set(
        hot_set.select(
            rank=pl.int_range(1, pl.len() + 1, dtype=pl.UInt32),
            key="key",
            updates="updates",
            share=pl.col("updates") / total,
            dim=pl.Series(dims, dtype=pl.UInt8),
            lane=pl.Series(lanes_of_rows(keys, dims), dtype=pl.UInt8),
        ),
        origin,
    )


def select_top_keys(updates: pl.DataFrame, top_k: int) -> pl.DataFrame:
    return updates.lazy().sort(["updates", "key"], descending=[True, False]).head(top_k).collect()


def reduce_parts(
    counts: Counts, reduce: Callable[[pl.DataFrame], T], scheduler: str | None, progress: Progress
) -> Iterator[T]:
    """Yield `reduce` of each part of the keys, in any order; `scheduler` is as in `run_in_parallel`."""
    if scheduler is None:
        for done, part in enumerate(counts.by_key()):
            progress(done, counts.parts)
            yield reduce(part)
        progress(counts.parts, counts.parts)
        return
    yield from _reduce_on_cluster(counts, reduce, scheduler, progress)


def _reduce_on_cluster(
    counts: Counts, reduce: Callable[[pl.DataFrame], T], scheduler: str, progress: Progress
) -> Iterator[T]:
    with cluster_at(scheduler) as client:
        from distributed import as_completed

        split_counts = counts.in_parts(_PARTS_PER_THREAD * count_threads(client))
        futures = client.map(
            _reduce_part, range(split_counts.parts), counts=split_counts, reduce=reduce, pure=False
        )
        for done, future in enumerate(as_completed(futures)):
            progress(done, split_counts.parts)
            result: T = future.result()
            future.release()
            yield result
        progress(split_counts.parts, split_counts.parts)


def _reduce_part(part: int, counts: Counts, reduce: Callable[[pl.DataFrame], T]) -> T:
    return reduce(counts.of_part(part))


def write(hot_set: pl.DataFrame, path: Path) -> None:
    with atomic_path(path) as partial_file:
        hot_set.write_parquet(partial_file)


def read(path: Path) -> pl.DataFrame:
    if not read_head(path).startswith(PARQUET_MAGIC):
        raise HotSetError(f"{path}: not a Parquet file; `hotline hotset build` writes hot sets")
    with reading(path):
        hot_set = pl.read_parquet(path, glob=False)
    if dict(hot_set.schema) == {name: kind for name, kind in SCHEMA.items() if name != "dim"}:
        raise HotSetError(
            f"{path}: expected the column dim, got a hot set of an older version, whose rows have one value; "
            "build it again with `hotline hotset build --dim`"
        )
    if dict(hot_set.schema) != SCHEMA:
        raise HotSetError(
            f"{path}: expected the columns {_describe_columns(SCHEMA)}, "
            f"got {_describe_columns(hot_set.schema)}"
        )
    if hot_set.is_empty():
        raise HotSetError(f"{path}: has no keys; to empty a job's hot set, use `hotline unload`")
    return _check_hot_set(hot_set, str(path))


def _check_hot_set(hot_set: pl.DataFrame, origin: str) -> pl.DataFrame:
    for column in hot_set:
        if column.null_count():
            row = int(np.argmax(column.is_null().to_numpy())) + 1
            raise HotSetError(f"{origin}: row {row} has no {column.name}")
    if not hot_set["share"].is_between(0, 1).all():
        wrong_row = hot_set.filter(~pl.col("share").is_between(0, 1)).row(0, named=True)
        raise HotSetError(
            f"{origin}: the share of key {wrong_row['key']}: expected a number from 0 to 1, got "
            f"{wrong_row['share']}"
        )
    keys = hot_set["key"]
    repeated_keys = hot_set.filter(keys.is_duplicated())["key"]
    if len(repeated_keys):
        raise HotSetError(f"{origin}: expected different keys, got key {repeated_keys[0]} more than once")
    if keys.max() == NO_KEY:
        raise HotSetError(f"{origin}: key {NO_KEY} means 'no key' on the wire; it cannot be hot")
    dims = hot_set["dim"].to_numpy()
    wrong_dims = np.flatnonzero(~np.isin(dims, DIMS))
    if wrong_dims.size:
        row = int(wrong_dims[0])
        raise HotSetError(f"{origin}: the dim of key {keys[row]}: expected one of {DIMS}, got {dims[row]}")
    lanes = lanes_of_rows(keys.to_numpy(), dims)
    wrong_lanes = np.flatnonzero(lanes != hot_set["lane"].to_numpy())
    if wrong_lanes.size:
        row = int(wrong_lanes[0])
        raise HotSetError(
            f"{origin}: the lane of key {keys[row]}: expected {lanes[row]}, got {hot_set['lane'][row]}"
        )
    return hot_set


def check_dims(hot_set: pl.DataFrame, ranges: RowRanges, origin: str, owner: str) -> None:
    """Raise `HotSetError` if a key's dim is not that of `ranges`, which `owner` has, such as "job 4"."""
    keys, dims = hot_set["key"].to_numpy(), hot_set["dim"].to_numpy()
    expected = dims_in(ranges, keys)
    wrong = np.flatnonzero(dims != expected)
    if wrong.size:
        row = int(wrong[0])
        raise HotSetError(
            f"{origin}: the dim of key {keys[row]}: expected {expected[row]}, as the rows of {owner} have "
            f"it, got {dims[row]}; build it again with `hotline hotset build {_dim_options(ranges)}`"
        )


def _dim_options(ranges: RowRanges) -> str:
    if len(ranges) == 1:
        return f"--dim {ranges[0].dim}"
    return f"--dims {','.join(f'{first}={dim}' for first, dim in ranges)}"


def _describe_columns(schema: pl.Schema | dict[str, type[pl.DataType]]) -> str:
    return shortened(", ".join(f"{name} ({type_})" for name, type_ in schema.items()))
