"""The sums of a worker's pushes, by value, in a file that survives the worker.

The worker maps the file, so the kernel keeps the written data when the process is killed. An undo log keeps
the sums exact at every instant. Before a push its deltas are written to the log; each answer marks its lanes
there; when the push ends, the deltas are added to the sums and the log is closed. After a kill in a
push the log separates answered lanes (`sent`) from unanswered ones, which may or may not have been applied
(`unknown`). The field `open_lanes` opens and closes the log by one atomic store: what the log does not count
at that moment may be written in any order. A crash of the machine may lose the ledger; only processes are
expected to die.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.designs.combination import Combination, combination_of
from foundation.designs.compiled_combination import combine
from foundation.errors import HotlineError, reason_of
from foundation.logs.parts import partial_path
from foundation.protocol.codec import Values
from hosts.keys import KeySpace, places_of_rows
from nativekit.compile import int64
from nativekit.memory import store_item_release
from nativekit.records import Ints
from nativekit.reference import as_ref

_MAGIC = 0x484F544C4544474B  # "HOTLEDGK"
_FIELDS = (
    "magic", "job", "epoch", "size", "capacity", "widest",
    "lanes", "open_lanes", "lanes_before", "combination",
)  # fmt: skip
_HEAD = np.dtype([(name, np.int64) for name in _FIELDS])
"""`size` is the number of values of all rows; a push has at most `capacity` rows of `widest` values each.

`open_lanes` is negative for a push that nobody will end (`UnfinishedPush.give_up`).
`combination` is the code of a `Combination`: where it is not ADD, the sums are what it makes of the pushes.
"""
_LANES, _OPEN_LANES, _LANES_BEFORE, _COMBINATION = map(_FIELDS.index, _FIELDS[6:])


class LedgerError(HotlineError):
    """A file is not a readable ledger or replay log, or a push does not fit into it."""


class _LedgerArrays(NamedTuple):
    """The arrays of the file, in this order: its head, the sums, and the undo log."""

    head: Ints  # the fields of `_HEAD`
    first: Ints  # place of the first value of each pushed row, [capacity]
    dims: Ints  # of these rows, [capacity]
    sums: NDArray[np.uint32]
    deltas: NDArray[np.uint32]  # of these rows, one after the other, [capacity * widest]
    sums_before: NDArray[np.uint32]  # sums of their values before the push
    answered: NDArray[np.bool_]  # [capacity]


@dataclass(frozen=True, slots=True)
class Sums:
    """Contents of a ledger: sums mod 2^32 by place in the value space, and numbers of pushed lanes."""

    job: int
    epoch: int
    sent: Values  # [size]: deltas known to be applied
    unknown: Values  # [size]: deltas of unanswered lanes, each applied once or not at all
    lanes_sent: int
    lanes_unknown: int


class Ledger:
    """Sums of one job at one worker over a space of rows; a push has at most `capacity` distinct ones."""

    def __init__(
        self, job: int, epoch: int, space: KeySpace, capacity: int, path: Path | None = None,
        combination: Combination = Combination.ADD,
    ) -> None:  # fmt: skip
        widest = max(space.dims)
        fields = (_MAGIC, job, epoch, space.n_values, capacity, widest, 0, 0, 0, combination.code)
        head = np.array([fields], _HEAD).tobytes()
        sections = _section_bytes(space.n_values, capacity, widest)
        n_bytes = sum(sections)
        if path is None:
            content = np.zeros(n_bytes, dtype=np.uint8)
            content[: len(head)] = np.frombuffer(head, np.uint8)
        else:
            create_file(path, n_bytes, head)
            content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+", shape=(n_bytes,)))
        self._space, self._capacity = space, capacity
        self._arrays = _split_content(content, sections)

    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Log a push of these distinct rows [n] before it starts; return flags `answered` [n]."""
        n = len(positions)
        if n > self._capacity:
            raise LedgerError(f"expected a push of at most {self._capacity} rows, got {n}")
        arrays = self._arrays
        arrays.first[:n], arrays.dims[:n] = (
            self._space.first_values(positions),
            self._space.dims_at(positions),
        )
        arrays.deltas[: len(deltas)] = deltas
        _open_log(arrays, n)
        return arrays.answered[:n]

    def close(self) -> None:
        """Add the deltas of the push to the sums; all of its lanes must be answered."""
        _close_log(self._arrays)

    def sums(self) -> Sums:
        return _read_sums(self._arrays)

    @property
    def unfinished_push(self) -> UnfinishedPush:
        """The push that is open, for a test that kills the worker and keeps its memory."""
        return UnfinishedPush(self._arrays)


class UnfinishedPush:
    """The push that a killed worker had begun, in its ledger; it has no rows if there is none."""

    def __init__(self, arrays: _LedgerArrays) -> None:
        self._arrays, n = arrays, max(int(arrays.head[_OPEN_LANES]), 0)
        self.first, self.answered = arrays.first[:n], arrays.answered[:n]
        """Place of the first value of each row in the value space, and whether the row was acknowledged."""

    @classmethod
    def in_file(cls, path: Path) -> UnfinishedPush:
        """Map a ledger, whose worker has ended. Raises `LedgerError`."""
        check_file(path, _HEAD, _MAGIC, _sections_of, "ledger")
        content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+"))
        return cls(_split_content(content, _sections_of(content[: _HEAD.itemsize].view(_HEAD)[0])))

    def retain_unanswered(self) -> Values:
        """Add the acknowledged rows to the sums, and leave the others open; return the deltas of these."""
        dims = self._arrays.dims[: len(self.first)]
        is_missing = ~self.answered
        first, dims_left = self.first[is_missing], dims[is_missing]
        deltas = np.array(self._arrays.deltas[: dims.sum()][is_missing.repeat(dims)])
        self.close()
        n = len(first)
        self.first, self.answered = self._arrays.first[:n], self._arrays.answered[:n]
        self.first[:], self._arrays.dims[:n], self._arrays.deltas[: len(deltas)] = first, dims_left, deltas
        if n:
            _open_log(self._arrays, n)
        return deltas

    def close(self) -> None:
        """Add the acknowledged rows to the sums, and forget the others."""
        if self._arrays.head[_OPEN_LANES]:
            _close_answered(self._arrays)

    def give_up(self) -> None:
        """Leave the rows without an answer unknown for good: no successor will end the push."""
        _give_up(self._arrays)


@entry_point
def _open_log(arrays: _LedgerArrays, n: int) -> None:
    arrays = as_ref(arrays)
    k = 0
    for i in range(n):
        for place in range(arrays.first[i], arrays.first[i] + arrays.dims[i]):
            arrays.sums_before[k] = arrays.sums[place]
            k += 1
        arrays.answered[i] = False
    arrays.head[_LANES_BEFORE] = arrays.head[_LANES]
    store_item_release(arrays.head, _OPEN_LANES, n)  # from now on the log counts


@entry_point
def _close_log(arrays: _LedgerArrays) -> None:
    arrays = as_ref(arrays)
    n, k, code = int64(arrays.head[_OPEN_LANES]), 0, int64(arrays.head[_COMBINATION])
    for i in range(n):
        for place in range(arrays.first[i], arrays.first[i] + arrays.dims[i]):
            arrays.sums[place] = combine(code, int64(arrays.sums[place]), int64(arrays.deltas[k]))
            k += 1
    arrays.head[_LANES] += n
    store_item_release(arrays.head, _OPEN_LANES, 0)  # until now the log counted


@entry_point
def _give_up(arrays: _LedgerArrays) -> None:
    arrays = as_ref(arrays)
    store_item_release(arrays.head, _OPEN_LANES, -abs(int64(arrays.head[_OPEN_LANES])))


@entry_point
def _close_answered(arrays: _LedgerArrays) -> None:
    arrays = as_ref(arrays)
    n, k, code = int64(arrays.head[_OPEN_LANES]), 0, int64(arrays.head[_COMBINATION])
    n_answered = int64(0)
    for i in range(n):
        n_answered += 1 if arrays.answered[i] else 0
        for place in range(arrays.first[i], arrays.first[i] + arrays.dims[i]):
            # The worker may have been killed while it added the deltas, so the sums before them count.
            total = int64(arrays.sums_before[k])
            if arrays.answered[i]:
                total = combine(code, total, int64(arrays.deltas[k]))
            arrays.sums[place] = total
            k += 1
    arrays.head[_LANES] = arrays.head[_LANES_BEFORE] + n_answered
    store_item_release(arrays.head, _OPEN_LANES, 0)


def read(path: Path) -> Sums:
    check_file(path, _HEAD, _MAGIC, _sections_of, "ledger")
    content = np.fromfile(path, dtype=np.uint8)
    return _read_sums(_split_content(content, _sections_of(content[: _HEAD.itemsize].view(_HEAD)[0])))


def check_file(
    path: Path, layout: np.dtype[np.void], magic: int, sections_of: Callable[[np.void], list[int]], kind: str
) -> None:
    try:
        head, n_bytes = np.fromfile(path, layout, count=1), path.stat().st_size
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not len(head) or head[0]["magic"] != magic:
        raise LedgerError(f"{path}: expected a {kind}, found no magic number {magic:#x} at its start")
    expected = sum(sections_of(head[0]))
    if n_bytes != expected:
        raise LedgerError(f"{path}: expected {expected} bytes for {head[0]['size']} values, got {n_bytes}")


def count_mismatches(
    sent: Sequence[Values], unknown: Sequence[Values], values: Values, space: KeySpace,
    combination: Combination = Combination.ADD,
) -> int:  # fmt: skip
    """Return the number of rows that are not the combination of all `sent` and any subset of `unknown`.

    All arrays are by place in the value space. An update of `unknown` is in all values of a row or in none.
    """
    possible_values = [reduce(combination.merge, sent, np.zeros_like(values))]
    for deltas in unknown:
        if deltas.any():
            possible_values += [combination.merge(each, deltas) for each in possible_values]
    row_starts = space.first_values(np.arange(space.size))
    is_explained = np.zeros(space.size, np.bool_)
    for possible in possible_values:
        is_explained |= np.logical_and.reduceat(values == possible, row_starts)
    return int((~is_explained).sum())


def create_file(path: Path, n_bytes: int, head: bytes) -> None:
    """Create a file of zeros after `head`, or replace it. The file exists with all its content or not at all.

    Its disk space is allocated, without which writing to a mapping raises SIGBUS.
    """
    partial = partial_path(path)
    try:
        with partial.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
            file.write(head)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise LedgerError(f"{path}: cannot be written: {reason_of(error)}") from error


def _section_bytes(size: int, capacity: int, widest: int) -> list[int]:
    # In the order of `_LedgerArrays`: numbers are int64, sums and deltas uint32, and `answered` has bytes.
    return [_HEAD.itemsize, *[8 * capacity] * 2, 4 * size, *[4 * capacity * widest] * 2, capacity]


def _sections_of(head: np.void) -> list[int]:
    return _section_bytes(int(head["size"]), int(head["capacity"]), int(head["widest"]))


def _split_content(content: NDArray[np.uint8], sections: list[int]) -> _LedgerArrays:
    head, first, dims, sums, deltas, sums_before, answered = np.split(content, np.cumsum(sections)[:-1])
    return _LedgerArrays(
        head.view(np.int64),
        first.view(np.int64),
        dims.view(np.int64),
        sums.view(np.uint32),
        deltas.view(np.uint32),
        sums_before.view(np.uint32),
        answered.view(np.bool_),
    )


def _read_sums(arrays: _LedgerArrays) -> Sums:
    head = arrays.head.view(_HEAD)[0]
    sent = np.array(arrays.sums)
    unknown = np.zeros_like(sent)
    n, lanes = abs(int(head["open_lanes"])), int(head["lanes"])
    # The sums may include none, some or all deltas of the open push: start from the sums before it.
    dims, answered = arrays.dims[:n], arrays.answered[:n]
    if n:
        places, deltas = places_of_rows(arrays.first[:n], dims), arrays.deltas[: dims.sum()]
        combination = combination_of(int(head["combination"]))
        is_answered, units = answered.repeat(dims), combination.units(deltas)
        lanes = int(head["lanes_before"]) + int(answered.sum())
        sent[places] = combination.merge(arrays.sums_before[: len(places)], units * is_answered)
        unknown[places[~is_answered]] = units[~is_answered]
    return Sums(int(head["job"]), int(head["epoch"]), sent, unknown, lanes, n - int(answered.sum()))
