"""What a worker's pushes must add up to, kept so that it survives the death of the worker.

The ledger is a file that the worker maps: the kernel keeps what was written when the process is killed. An
undo log makes it exact at every instant. Before a push its deltas go into the log; each answer marks its
lanes there; when the push ends the sums take the deltas in and the log is closed. Read from a worker that was
killed in the middle, the log tells answered lanes (`sent`) from the others, which may or may not have been
applied (`unknown`). A machine that crashes may lose it; only processes are expected to die.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hosts.errors import LedgerError
from protocol.codec import Values

_MAGIC = 0x484F544C4544474A  # "HOTLEDGJ"
_HEAD = np.dtype(
    [(name, np.int64) for name in ("magic", "job", "epoch", "size", "capacity", "lanes", "open", "before")]
)
_ENTRY = np.dtype(
    [("position", np.uint32), ("delta", np.uint32), ("before", np.uint32), ("answered", np.bool_), ("", "V3")]
)


@dataclass(frozen=True, slots=True)
class Sums:
    """A ledger as read: sums mod 2^32 by position in the key space, and numbers of pushed lanes."""

    job: int
    epoch: int
    sent: Values
    """[size]: deltas known to be applied."""
    unknown: Values
    """[size]: deltas of unanswered lanes, each applied once or not at all."""
    lanes_sent: int
    lanes_unknown: int


class Ledger:
    """Sums of one job at one worker over `size` parameters; a push has `capacity` distinct ones at most."""

    def __init__(self, job: int, epoch: int, size: int, capacity: int, path: Path | None = None) -> None:
        n_bytes = _HEAD.itemsize + 4 * size + _ENTRY.itemsize * (capacity + 1)
        if path is None:
            self._map = np.zeros(n_bytes, dtype=np.uint8)
        else:
            _reserve(path, n_bytes)
            self._map = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+", shape=(n_bytes,)))
        self._head, self._sums, self._log = _views(self._map, size, capacity)
        self._head["job"], self._head["epoch"] = job, epoch
        self._head["size"], self._head["capacity"] = size, capacity
        self._head["magic"] = _MAGIC

    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Before a push of these distinct parameters [n]; returns `answered` [n + 1] for the push to mark."""
        n = len(positions)
        if n > self._head["capacity"]:
            raise LedgerError(f"a push of {n} parameters; this ledger takes {self._head['capacity']}")
        log = self._log[:n]
        log["position"] = positions
        log["delta"] = deltas
        log["before"] = self._sums[positions]
        log["answered"] = False
        self._head["before"] = self._head["lanes"]
        self._head["open"] = n
        answered: NDArray[np.bool_] = self._log["answered"][: n + 1]
        return answered

    def close(self) -> None:
        """The push has ended: every lane was answered."""
        log = self._log[: self._head["open"]]
        self._sums[log["position"]] += log["delta"]
        self._head["lanes"] += len(log)
        self._head["open"] = 0

    def sums(self) -> Sums:
        """Where the job stands."""
        return _settle(self._head, self._sums, self._log)


def read(path: Path) -> Sums:
    """The ledger of a worker, alive or dead; raises `LedgerError`."""
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror or error}") from error
    head = content[: _HEAD.itemsize]
    if len(head) < _HEAD.itemsize or head.view(_HEAD)[0]["magic"] != _MAGIC:
        raise LedgerError(f"{path}: is no ledger")
    size, capacity = (int(head.view(_HEAD)[0][name]) for name in ("size", "capacity"))
    if len(content) != _HEAD.itemsize + 4 * size + _ENTRY.itemsize * (capacity + 1):
        raise LedgerError(f"{path}: has {len(content)} bytes, too few or many for {size} parameters")
    return _settle(*_views(content, size, capacity))


def _reserve(path: Path, n_bytes: int) -> None:
    """A file of zeros that has its place on the disk: where a mapping has none, SIGBUS ends the process."""
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror or error}") from error


def _views(content: NDArray[np.uint8], size: int, capacity: int) -> tuple[np.void, Values, NDArray[np.void]]:
    sums_end = _HEAD.itemsize + 4 * size
    head: np.void = content[: _HEAD.itemsize].view(_HEAD)[0]
    return head, content[_HEAD.itemsize : sums_end].view(np.uint32), content[sums_end:].view(_ENTRY)


def _settle(head: np.void, sums: Values, log: NDArray[np.void]) -> Sums:
    sent = np.array(sums)
    unknown = np.zeros_like(sent)
    n, lanes = int(head["open"]), int(head["lanes"])
    answered = log["answered"][:n]
    if n:
        # The sums may have taken in none, some or all of the open push: start from what they were before.
        log, lanes = log[:n], int(head["before"]) + int(answered.sum())
        sent[log["position"]] = log["before"] + log["delta"] * answered
        unknown[log["position"][~answered]] = log["delta"][~answered]
    return Sums(int(head["job"]), int(head["epoch"]), sent, unknown, lanes, n - int(answered.sum()))
