"""Convert update logs or training sets to a `Log` on disk, in the order of time and in bounded memory.

Rows are sorted by iteration, worker, pulls before updates, and key, a range of iterations at a time. Several
update logs, such as those of several servers, are merged. Repeated accesses of a key within a step count
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.columns import TRANSFERS
from foundation.logs.libsvm import read_samples
from foundation.logs.update_log import (
    UNREADABLE,
    UPDATES,
    UpdateLog,
    first_line,
    is_compressed,
    is_update_log,
)
from foundation.protocol.header import NO_KEY
from studies.policies.generated import Progress
from studies.policies.log import MAX_ACCESSES, MAX_KEYS, PULL, Log, training_length

ROWS_AT_ONCE = 8_000_000
"""Rows sorted at a time, which takes about 1 GB."""
_OP = "op"
_COUNTS = {"key", "updates"}
_BATCHES_PER_PART = 20_000


def prepare(
    files: Sequence[Path], folder: Path, learn: float, samples_per_step: int, progress: Progress,
    name: str | None = None,
) -> Log:  # fmt: skip
    """Read files into a log in an empty folder; the first `learn` of its steps train. Raises `DataError`."""
    if all(is_compressed(file) or is_update_log(file) for file in files):
        rows = [_read_update_log(file, folder, number) for number, file in enumerate(files)]
    else:
        rows = [_read_training_sets(files, folder, samples_per_step)]
    name = name or ", ".join(file.name for file in files)
    return _sort_into_log(pl.concat(rows, how="diagonal"), name, folder, learn, progress)


def _read_update_log(file: Path, folder: Path, number: int) -> pl.LazyFrame:
    """Return checked rows of iteration, worker, key and, if present, op; CSV is parsed once, into Parquet."""
    log = UpdateLog.open(file)
    missing = [name for name in UPDATES if name not in log.names]
    if missing and set(log.names) >= _COUNTS:
        raise DataError(
            f"{file}: has key, updates: counts without their order, which policies need; expected a log with "
            f"{', '.join(UPDATES)} (`hotline hotset curve` has the share of the top k of counts)"
        )
    if missing:
        raise DataError(
            f"{file}: lacks the column {', '.join(missing)}; expected a log with {', '.join(UPDATES)}"
        )
    texts = (_OP,) if _OP in log.names else ()
    rows = log.scan(UPDATES, texts)
    try:
        if not log.is_parquet:
            copy = folder / f"rows-{number}.parquet"
            rows.sink_parquet(copy)
            rows = pl.scan_parquet(copy)
        _check(file, log, rows, texts)
    except UNREADABLE as error:
        raise DataError(log.fault(UPDATES) or f"{file}: cannot be read: {first_line(error)}") from error
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return rows


def _check(file: Path, log: UpdateLog, rows: pl.LazyFrame, texts: Sequence[str]) -> None:
    wrong = pl.any_horizontal(pl.col(name).is_null() for name in UPDATES) | (pl.col("key") == NO_KEY)
    if texts:
        wrong |= ~pl.col(_OP).is_in(TRANSFERS).fill_null(False)
    found = rows.with_row_index("row").filter(wrong).head(1).collect(engine="streaming")
    for row in found.iter_rows(named=True):
        where = f"row {row['row'] + 1}" if log.is_parquet else f"line {row['row'] + 2}"
        if any(row[name] is None for name in UPDATES):
            raise DataError(log.fault(UPDATES) or f"{file}, {where}: lacks its iteration, worker or key")
        if row["key"] == NO_KEY:
            raise DataError(f"{file}, {where}: key {NO_KEY} means 'no key' on the wire")
        value = "empty" if row[_OP] is None else repr(row[_OP])
        raise DataError(f"{file}, {where}: column {_OP} is {value}; {' or '.join(TRANSFERS)} expected")


def _read_training_sets(files: Sequence[Path], folder: Path, samples_per_step: int) -> pl.LazyFrame:
    parts = []
    for number, part in enumerate(_batch_keys(files, samples_per_step)):
        parts.append(folder / f"rows-{number}.parquet")
        part.write_parquet(parts[-1])
    if not parts:
        raise DataError(f"{', '.join(map(str, files))}: no sample has a feature")
    return pl.scan_parquet(parts)


def _batch_keys(files: Sequence[Path], samples_per_step: int) -> Iterator[pl.DataFrame]:
    samples = (sample for file in files for sample in read_samples(file))
    batches = enumerate(iter(lambda: list(islice(samples, samples_per_step)), []))
    while part := list(islice(batches, _BATCHES_PER_PART)):
        steps = [(number, sorted({key for _, keys, _ in batch for key in keys})) for number, batch in part]
        iteration = np.repeat([number for number, _ in steps], [len(keys) for _, keys in steps])
        keys = np.array([key for _, keys in steps for key in keys], np.uint64)
        if len(keys):
            columns = {"iteration": iteration.astype(np.uint64), "worker": np.zeros(len(keys), np.uint64)}
            yield pl.DataFrame({**columns, "key": keys})


def _sort_into_log(rows: pl.LazyFrame, name: str, folder: Path, learn: float, progress: Progress) -> Log:
    lengths = rows.group_by("iteration").len().collect(engine="streaming").sort("iteration")
    total = int(lengths["len"].sum())
    if not 0 < total <= MAX_ACCESSES:
        raise DataError(f"{name}: has {total:,} rows; expected 1 to {MAX_ACCESSES:,}")
    keys = rows.select(pl.col("key").unique()).collect(engine="streaming")["key"].sort().to_numpy()
    if len(keys) > MAX_KEYS:
        raise DataError(f"{name}: has {len(keys):,} keys; expected at most {MAX_KEYS:,}")
    file, sizes, done = folder / "accesses.u32", [], 0
    has_pulls = _OP in rows.collect_schema()
    with file.open("wb") as out:
        for first, last, length in _ranges(lengths):
            part = rows.filter(pl.col("iteration").is_between(first, last))
            accesses, step_sizes = _sort(part, keys, has_pulls)
            accesses.tofile(out)
            sizes.append(step_sizes)
            done += length
            progress(done, total)
    starts = np.append(0, np.cumsum(np.concatenate(sizes), dtype=np.int64))
    accesses = np.memmap(file, np.uint32, "r")
    steps = len(starts) - 1
    if steps < 2:
        raise DataError(f"{name}: has one mini-batch (iteration, worker); policies are compared over many")
    return Log(name, accesses, starts, keys, training_length(steps, learn), has_pulls, folder)


def _ranges(lengths: pl.DataFrame) -> Iterator[tuple[int, int, int]]:
    groups = lengths.group_by(pl.col("len").cum_sum() // ROWS_AT_ONCE, maintain_order=True)
    for _, group in groups:
        yield int(group["iteration"][0]), int(group["iteration"][-1]), int(group["len"].sum())


def _sort(
    part: pl.LazyFrame, keys: NDArray[np.uint64], has_pulls: bool
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return accesses[n] in order, and the number of accesses of each step."""
    is_pull = (pl.col(_OP) == "pull").fill_null(False) if has_pulls else pl.lit(False)
    order = ["iteration", "worker", "update", "key"]
    rows = part.select("iteration", "worker", "key", update=~is_pull).unique().sort(order).collect()
    sizes = rows.group_by("iteration", "worker", maintain_order=True).len()["len"].to_numpy()
    places = np.searchsorted(keys, rows["key"].to_numpy()).astype(np.uint32)
    return places | np.where(rows["update"].to_numpy(), 0, PULL).astype(np.uint32), sizes.astype(np.int64)
