"""Read an access log of any format into steps in the order of time, in arrays on disk, in bounded memory.

An access is the index of one of the log's distinct keys, with the highest bit set for a pull. A step is one
mini-batch; its accesses are distinct, and pulls come before updates. A log that is not in the order of
time is sorted by ranges of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError, reason_of
from foundation.logs.access.block import (
    AccessBlock,
    AccessLog,
    AccessTables,
    BadRows,
    Dims,
    Keys,
    ReadOptions,
)
from foundation.logs.access.dictionary import SOURCES, Dictionary
from foundation.logs.access.dims_by_key import DimsByKey
from foundation.logs.access.log_files import expand
from foundation.logs.access.opened_logs import open_logs
from foundation.logs.access.table_rows import TableLog
from foundation.logs.access.uncompiled import count, make_dictionary, sort_steps
from foundation.logs.access.unique_keys import (
    TableCounts,
    check_mini_batches,
    check_repeats,
    notes_on_unique_keys,
    unique_columns,
    without_columns,
)
from foundation.text import pluralize
from nativekit.compile import cached_entry_point, int64
from nativekit.installed import HAS_NUMBA
from nativekit.records import Ints

Accesses = NDArray[np.uint32]
Progress = Callable[[int, int], None]
"""Callback with the work done and the total, in bytes."""
PULL = 1 << 31
"""Bit that is set in the access of a pull; other accesses are updates."""
KEY = PULL - 1
"""Mask of the bits of an access that are the index of its key."""
MAX_ACCESSES = 2**32 - 2
ACCESSES_AT_ONCE = 8_000_000
"""Accesses sorted at a time, which takes about 0.5 GB."""
_CHUNK = 1 << 20  # accesses or records that are processed at a time
_RECORD = np.dtype([("order", np.uint64), ("group", np.uint64), ("access", np.uint32)])
"""An access that is not sorted yet: its index, and its `order` and `group` in an `AccessBlock`."""
_SAMPLE_EVERY = 997
"""Interval of the records of a block whose times are sampled, to divide the log into ranges of time."""


@dataclass(frozen=True)
class Steps:
    name: str
    accesses: Accesses
    """[n]: accesses in the order of time; ascending by key in a step, pulls first."""
    starts: NDArray[np.int64]
    """[steps + 1]: index of the first access of each step, and of the end."""
    keys: NDArray[np.uint64]
    """[distinct]: the keys, ascending."""
    has_pulls: bool
    tables: tuple[str, ...]
    table_of: NDArray[np.uint16]
    """[distinct]: table of each key."""
    notes: tuple[str, ...]
    dim_of: Dims | None = field(default=None, kw_only=True)
    """[distinct]: values of the row that each key names; None if no column of the log has them."""

    def __len__(self) -> int:
        return len(self.starts) - 1


def updates_of(steps: Steps, first: int = 0, end: int | None = None) -> NDArray[np.int64]:
    """Return the updates of each key in a range of accesses, without its pulls: [distinct]."""
    return _count_by_key(steps, first, len(steps.accesses) if end is None else end, ignored_bits=0)


def accesses_of(steps: Steps) -> NDArray[np.int64]:
    return _count_by_key(steps, 0, len(steps.accesses), ignored_bits=PULL)


def _count_by_key(steps: Steps, first: int, end: int, ignored_bits: int) -> NDArray[np.int64]:
    counts = np.zeros(len(steps.keys), np.int64)
    for start in range(first, end, _CHUNK):
        _count(np.array(steps.accesses[start : min(start + _CHUNK, end)]), ignored_bits, counts)
    return counts


class _OutOfOrderError(Exception): ...


def read_steps(
    paths: Sequence[Path], options: ReadOptions, folder: Path, progress: Progress, *, must_repeat: bool = True
) -> Steps:
    """Read files, folders and patterns into arrays in `folder`, which must be empty. Raises `DataError`.

    Guessed columns whose keys all differ are left out if others look like keys. A log of which no key is
    repeated is refused, unless `must_repeat` is False.
    """
    files, left_out = expand(paths), tuple[str, ...]()
    found = _read(paths, files, options, folder, progress)
    while unique := unique_columns(found.log, options, found.tables):
        narrower = without_columns(files, options, unique)
        if narrower is None:
            break
        options, left_out = narrower, (*left_out, *unique)
        found = _read(paths, files, options, folder, progress)
    steps, log = found.steps, found.log
    # The keys of a single mini-batch are distinct in any log; where one is used, it is called too short.
    if must_repeat and not (log.has_batches and len(steps) == 1):
        name = ", ".join(map(str, paths))
        check_repeats(name, log, found.tables, left_out)
        if len(steps.accesses) == len(steps.keys) and len(steps) > 1:
            check_mini_batches(name, len(steps.keys), None if log.has_batches else options.batch)
    columns = log.layout.columns.key if isinstance(log, TableLog) else ()
    notes = notes_on_unique_keys(found.tables, columns, left_out)
    return replace(steps, notes=(*steps.notes, *notes))


class _ReadLog(NamedTuple):
    steps: Steps
    log: AccessLog  # the first of the files
    tables: list[TableCounts]


def _read(
    paths: Sequence[Path], files: Sequence[Path], options: ReadOptions, folder: Path, progress: Progress
) -> _ReadLog:
    logs = open_logs(files, options)
    first_log = logs[0]
    name = ", ".join(path.name for path in paths)
    notes = [f"{name}: {first_log.description}"]
    for file, log in zip(files, logs, strict=True):
        if all(log.description not in note for note in notes):
            notes.append(f"{file}: {log.description}")
    if not first_log.has_batches:
        notes.append(f"mini-batches of {pluralize(options.batch, 'row')} (--batch), because the log has none")
    rows_of_step = 1 if first_log.has_batches else options.batch
    try:
        reader, writer = _LogReader(files, logs, options, progress), _Writer(folder, rows_of_step)
        try:
            with writer:
                for block, accesses in reader.blocks():
                    writer.add(block.order, block.group, accesses, must_be_ordered=True)
        except _OutOfOrderError:
            notes.append("sorted by time, because its rows are not in that order")
            reader, writer = _LogReader(files, logs, options, progress), _Writer(folder, rows_of_step)
            with writer:
                for records in _sorted_records(reader, folder):
                    writer.add(records["order"], records["group"], records["access"], must_be_ordered=False)
        bad = reader.bad
        bad.check_share(name, first_log.description, options.max_bad)
        if not writer.length:
            raise DataError(f"{name}: no access in it; expected at least one")
        if bad.count:
            skipped = f"{pluralize(bad.count, 'bad row')} ({bad.share:.1%})"
            notes.append(f"{skipped} skipped; the first: {bad.first[0]}")
        keys, table_of, length = _canonicalize(writer, reader.dictionary)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {reason_of(error)}") from error
    steps = Steps(
        name,
        accesses=np.memmap(writer.accesses_path, np.uint32, "r", shape=(length,)),
        starts=np.memmap(writer.starts_path, np.int64, "r"),
        keys=keys,
        has_pulls=reader.has_pulls,
        tables=tuple(reader.tables.names),
        table_of=table_of,
        notes=tuple(notes),
        dim_of=None if options.columns.dim is None else reader.dims.of(keys),
    )
    return _ReadLog(steps, first_log, reader.count_tables(table_of))


class _LogReader:
    def __init__(
        self, files: Sequence[Path], logs: Sequence[AccessLog], options: ReadOptions, progress: Progress
    ) -> None:
        self.bad = BadRows(options.skip_bad)
        self.dictionary = make_dictionary()
        self.dims = DimsByKey()
        self.tables = AccessTables(self.dims)
        self.has_pulls = False
        self.table_accesses = np.zeros(1, np.int64)
        """Accesses of each table so far, before repeated keys of a mini-batch are dropped."""
        self._sizes = [file.stat().st_size for file in files]
        self._logs = logs
        self._progress = progress

    def blocks(self) -> Iterator[tuple[AccessBlock, Accesses]]:
        first_row, bytes_done, total, length = 0, 0, sum(self._sizes), 0
        for log, size in zip(self._logs, self._sizes, strict=True):
            for block in log.blocks(self.tables, self.bad, first_row):
                self.bad.settle(log.description)
                accesses = self.dictionary.encode(block.keys, block.tables)
                length += len(accesses)
                self._count(block)
                if length > MAX_ACCESSES:
                    raise DataError(f"expected at most {MAX_ACCESSES:,} accesses, got more")
                if block.pulls is not None:
                    self.has_pulls = True
                    accesses |= np.where(block.pulls, np.uint32(PULL), np.uint32(0))
                if len(block.group):
                    last_row = int(block.group[-1])
                yield block, accesses
                self._progress(bytes_done + log.position, total)
            self.bad.settle(log.description)
            if length and not log.has_batches:
                first_row = last_row + 1
            bytes_done += size

    def count_tables(self, table_of: NDArray[np.uint16]) -> list[TableCounts]:
        """Return the counts of each table, given that of each distinct key."""
        names = self.tables.names or [""]
        keys = np.bincount(table_of, minlength=len(names)).tolist()
        return [*map(TableCounts, names, keys, self.table_accesses.tolist())]

    def _count(self, block: AccessBlock) -> None:
        if block.tables is None:
            self.table_accesses[0] += len(block.keys)
            return
        counts = np.bincount(block.tables, minlength=len(self.table_accesses))
        counts[: len(self.table_accesses)] += self.table_accesses
        self.table_accesses = counts


class _Writer:
    def __init__(self, folder: Path, rows_of_step: int) -> None:
        self.accesses_path, self.starts_path = folder / "accesses.u32", folder / "starts.i64"
        self._accesses_file, self._starts_file = self.accesses_path.open("wb"), self.starts_path.open("wb")
        self._rows_of_step = rows_of_step
        self._last_key: tuple[int, int] | None = None  # order and group
        self.rows = 0
        self.length = 0

    def add(
        self,
        order: Keys | None,
        group: Keys,
        accesses: Accesses,
        *,
        must_be_ordered: bool,
    ) -> None:
        if not len(accesses):
            return
        if order is None:
            order = np.zeros_like(group)
        first_key = int(order[0]), int(group[0])
        last_key = self._last_key
        is_new = np.empty(len(group), np.bool_)
        is_new[0] = first_key != last_key
        is_new[1:] = (group[1:] != group[:-1]) | (order[1:] != order[:-1])
        if must_be_ordered:
            decreases = (order[1:] < order[:-1]) | ((order[1:] == order[:-1]) & (group[1:] < group[:-1]))
            if decreases.any() or (last_key is not None and first_key < last_key):
                raise _OutOfOrderError
        row = np.cumsum(is_new) + self.rows - 1
        starts = np.flatnonzero(is_new & (row % self._rows_of_step == 0)) + self.length
        accesses.tofile(self._accesses_file)
        starts.astype(np.int64).tofile(self._starts_file)
        self.rows = int(row[-1]) + 1
        self.length += len(accesses)
        self._last_key = int(order[-1]), int(group[-1])

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        with self._accesses_file, self._starts_file:
            np.array([self.length], np.int64).tofile(self._starts_file)


def _sorted_records(reader: _LogReader, folder: Path) -> Iterator[NDArray[np.void]]:
    """Yield records in the order of time, one array for each range of times; uses temporary files."""
    unsorted_file, samples = folder / "unsorted.records", []
    with unsorted_file.open("wb") as out:
        for block, accesses in reader.blocks():
            records = np.empty(len(accesses), _RECORD)
            records["order"] = 0 if block.order is None else block.order
            records["group"], records["access"] = block.group, accesses
            records.tofile(out)
            samples.append(records["order"][::_SAMPLE_EVERY].copy())
    sampled = np.sort(np.concatenate(samples)) if samples else np.zeros(0, np.uint64)
    total = unsorted_file.stat().st_size // _RECORD.itemsize
    parts = -(-total // ACCESSES_AT_ONCE)
    # Times that begin another range: quantiles of the sample.
    cuts = (
        np.unique(sampled[np.arange(1, parts) * len(sampled) // max(parts, 1)]) if parts > 1 else sampled[:0]
    )
    files = [folder / f"range-{number}.records" for number in range(len(cuts) + 1)]
    _distribute_records(unsorted_file, files, cuts)
    unsorted_file.unlink()
    for file in files:
        records = np.fromfile(file, _RECORD)
        file.unlink()
        # The last key of lexsort is the primary one.
        yield records[np.lexsort((records["group"], records["order"]))]


def _distribute_records(unsorted_file: Path, files: Sequence[Path], cuts: NDArray[np.uint64]) -> None:
    if len(files) == 1:  # no copy: the caller removes the other name
        files[0].hardlink_to(unsorted_file)
        return
    with ExitStack() as stack:
        outs = [stack.enter_context(file.open("wb")) for file in files]
        source = stack.enter_context(unsorted_file.open("rb"))
        while len(records := np.fromfile(source, _RECORD, _CHUNK)):
            part = np.searchsorted(cuts, records["order"], side="right")
            for number in np.unique(part).tolist():
                records[part == number].tofile(outs[number])


def _canonicalize(
    writer: _Writer, dictionary: Dictionary
) -> tuple[NDArray[np.uint64], NDArray[np.uint16], int]:
    """Make indices ascend with keys, sort each step and drop its repeated keys, in place.

    Returns the keys, the table of each, and the number of accesses.
    """
    accesses = np.memmap(writer.accesses_path, np.uint32, "r+")
    starts = np.memmap(writer.starts_path, np.int64, "r+")
    keys, table_of, rank = dictionary.take_sorted()
    steps, step, length = len(starts) - 1, 0, 0
    # Steps only shrink, so that no write overtakes the reads.
    while step < steps:
        # As many whole steps as a chunk holds, but at least one.
        end = max(int(np.searchsorted(starts, starts[step] + _CHUNK, side="right")) - 1, step + 1)
        end = min(end, steps)
        bounds = np.array(starts[step : end + 1])
        part = np.array(accesses[bounds[0] : bounds[-1]])
        new_starts = _sort_steps(part, bounds - bounds[0], rank)
        accesses[length : length + new_starts[-1]] = part[: new_starts[-1]]
        starts[step:end] = length + new_starts[:-1]
        length += int(new_starts[-1])
        step = end
    starts[steps] = length
    return keys, table_of, length


def _sort_steps_plain(part: Accesses, starts: Ints, rank: NDArray[np.uint32]) -> Ints:
    new_starts = np.empty(len(starts), np.int64)
    length = 0
    for step in range(len(starts) - 1):
        new_starts[step] = length
        keys = part[starts[step] : starts[step + 1]]
        for i in range(len(keys)):
            access = int64(keys[i])
            # Pulls sort before updates.
            keys[i] = int64(rank[access & KEY]) | ((access & PULL) ^ PULL)
        if len(keys) > 1:
            keys.sort()
        last_key = -1
        for i in range(len(keys)):
            key = int64(keys[i])
            if key != last_key:
                part[length] = key ^ PULL  # as before the sort
                length += 1
            last_key = key
    new_starts[len(starts) - 1] = length
    return new_starts


def _count_plain(accesses: Accesses, ignored_bits: int, counts: Ints) -> None:
    for access in accesses:
        index = int64(access) & ~ignored_bits
        if index < PULL:  # not a pull, or the bit of pulls is ignored
            counts[index] += 1


if HAS_NUMBA:
    _count = cached_entry_point(_count_plain, Path(__file__).parent, SOURCES)
    _sort_steps = cached_entry_point(_sort_steps_plain, Path(__file__).parent, SOURCES)
else:
    _count, _sort_steps = count, sort_steps
