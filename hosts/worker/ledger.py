"""The sums of a worker's pushes, in a file that survives the worker.

The worker maps the file, so the kernel keeps the written data when the process is killed. An undo log keeps
the sums exact at every instant. Before a push its deltas are written to the log; each answer marks its lanes
there; when the push ends, the deltas are added to the sums and the log is closed. After a kill in a
push the log separates answered lanes (`sent`) from unanswered ones, which may or may not have been applied
(`unknown`). A crash of the machine may lose the ledger; only processes are expected to die.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.errors import HotlineError
from foundation.protocol.codec import Values

_MAGIC = 0x484F544C4544474A  # "HOTLEDGJ"
_FIELDS = ("magic", "job", "epoch", "size", "capacity", "lanes", "open_lanes", "lanes_before")
_HEAD = np.dtype([(name, np.int64) for name in _FIELDS])


class LedgerError(HotlineError):
    """A file is not a readable ledger or replay log, or a push does not fit into it."""


class _LedgerArrays(NamedTuple):
    """The arrays of the file after its head, in this order: the sums, and the undo log [capacity]."""

    sums: NDArray[np.uint32]
    positions: NDArray[np.uint32]
    deltas: NDArray[np.uint32]
    sums_before: NDArray[np.uint32]  # sums of the pushed parameters before the push
    answered: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sums:
    """Contents of a ledger: sums mod 2^32 by position in the key space, and numbers of pushed lanes."""

    job: int
    epoch: int
    sent: Values  # [size]: deltas known to be applied
    unknown: Values  # [size]: deltas of unanswered lanes, each applied once or not at all
    lanes_sent: int
    lanes_unknown: int


class Ledger:
    """Sums of one job at one worker over `size` parameters; a push has at most `capacity` distinct ones."""

    def __init__(self, job: int, epoch: int, size: int, capacity: int, path: Path | None = None) -> None:
        n_bytes = sum(_section_bytes(size, capacity))
        if path is None:
            content = np.zeros(n_bytes, dtype=np.uint8)
        else:
            reserve(path, n_bytes)
            content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+", shape=(n_bytes,)))
        self._head, self._arrays = _split_content(content, size, capacity)
        self._head["job"], self._head["epoch"] = job, epoch
        self._head["size"], self._head["capacity"] = size, capacity
        self._head["magic"] = _MAGIC  # last: until then the file is no ledger

    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Log a push of these distinct parameters [n] before it starts; return flags `answered` [n]."""
        n = len(positions)
        if n > self._head["capacity"]:
            raise LedgerError(f"expected a push of at most {self._head['capacity']} parameters, got {n}")
        arrays = self._arrays
        arrays.positions[:n] = positions
        arrays.deltas[:n] = deltas
        _save_sums(arrays, n)
        self._head["lanes_before"] = self._head["lanes"]
        self._head["open_lanes"] = n  # last: from now on the log counts
        return arrays.answered[:n]

    def close(self) -> None:
        """Add the deltas of the push to the sums; all of its lanes must be answered."""
        n = self._head["open_lanes"]
        _add_deltas(self._arrays, n)
        self._head["lanes"] += n
        self._head["open_lanes"] = 0  # last: until then the log counts

    def sums(self) -> Sums:
        return _read_sums(self._head, self._arrays)


@entry_point
def _save_sums(arrays: _LedgerArrays, n: int) -> None:
    for i in range(n):
        arrays.sums_before[i] = arrays.sums[arrays.positions[i]]
        arrays.answered[i] = False


@entry_point
def _add_deltas(arrays: _LedgerArrays, n: int) -> None:
    for i in range(n):
        arrays.sums[arrays.positions[i]] += arrays.deltas[i]


def read(path: Path) -> Sums:
    check_file(path, _HEAD, _MAGIC, _section_bytes, "ledger")
    content = np.fromfile(path, dtype=np.uint8)
    head = content[: _HEAD.itemsize].view(_HEAD)[0]
    return _read_sums(*_split_content(content, int(head["size"]), int(head["capacity"])))


def check_file(
    path: Path, layout: np.dtype[np.void], magic: int, sections: Callable[[int, int], list[int]], kind: str
) -> None:
    try:
        head, n_bytes = np.fromfile(path, layout, count=1), path.stat().st_size
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not len(head) or head[0]["magic"] != magic:
        raise LedgerError(f"{path}: expected a {kind}, found no magic number {magic:#x} at its start")
    size = int(head[0]["size"])
    expected = sum(sections(size, int(head[0]["capacity"])))
    if n_bytes != expected:
        raise LedgerError(f"{path}: expected {expected} bytes for {size} parameters, got {n_bytes}")


def count_mismatches(sent: Sequence[Values], unknown: Sequence[Values], values: Values) -> int:
    """Return the number of keys whose value is not the sum of all `sent` plus any subset of `unknown`."""
    remainder = values - np.sum(sent, axis=0, dtype=np.uint32)
    possible_remainders = [np.zeros_like(remainder)]
    for deltas in unknown:
        if deltas.any():
            possible_remainders += [partial_sum + deltas for partial_sum in possible_remainders]
    return int((~np.any([remainder == possible for possible in possible_remainders], axis=0)).sum())


def reserve(path: Path, n_bytes: int) -> None:
    """Create a file of zeros with allocated disk space, without which writing to a mapping raises SIGBUS."""
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror or error}") from error


def _section_bytes(size: int, capacity: int) -> list[int]:
    # In the order of `_LedgerArrays`: four arrays of uint32, one of bytes.
    return [_HEAD.itemsize, 4 * size, *[4 * capacity] * 3, capacity]


def _split_content(content: NDArray[np.uint8], size: int, capacity: int) -> tuple[np.void, _LedgerArrays]:
    head, *arrays, answered = np.split(content, np.cumsum(_section_bytes(size, capacity))[:-1])
    row: np.void = head.view(_HEAD)[0]
    sums, positions, deltas, sums_before = (column.view(np.uint32) for column in arrays)
    return row, _LedgerArrays(sums, positions, deltas, sums_before, answered.view(np.bool_))


def _read_sums(head: np.void, arrays: _LedgerArrays) -> Sums:
    sent = np.array(arrays.sums)
    unknown = np.zeros_like(sent)
    n, lanes = int(head["open_lanes"]), int(head["lanes"])
    # The sums may include none, some or all deltas of the open push: start from the sums before it.
    positions, deltas, answered = arrays.positions[:n], arrays.deltas[:n], arrays.answered[:n]
    if n:
        lanes = int(head["lanes_before"]) + int(answered.sum())
        sent[positions] = arrays.sums_before[:n] + deltas * answered
        unknown[positions[~answered]] = deltas[~answered]
    return Sums(int(head["job"]), int(head["epoch"]), sent, unknown, lanes, n - int(answered.sum()))
