"""A worker's replay log as a file that outlives the process: what the switch has acknowledged to it, by
key.

What is owed is pushed again part by part. A part is noted before it is taken from what is owed, and each of
its answers is noted, too: of a worker that was killed it is known what it still owes, and of which lanes it
had not been told whether they were added again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values
from hosts.errors import LedgerError
from hosts.worker.ledger import reserve

HELD, UNREPLAYED = 0, 1
"""Rows of a replay log: what the switch has acknowledged, and what one that is gone had."""
_MAGIC = 0x676F6C79616C7066
_HEAD = np.dtype([(name, "<i8") for name in ("magic", "size", "capacity", "switch", "noted", "taken")])
"""Of the part under way: so many keys are `noted`, and `taken` from what is owed, or not yet."""


NO_SWITCH = -1
"""Number of none, where the last one is gone and no other comes."""


class UnackedUpdates(NamedTuple):
    """What a worker unreplayed the servers, uint32[size] by position."""

    sure: Values
    unknown: Values
    """Deltas that it had begun to push again, and was not told of: added once, or not at all."""


class Part(NamedTuple):
    """Of what is owed: what is pushed again now, [capacity]."""

    positions: NDArray[np.uint32]
    deltas: Values
    answered: NDArray[np.bool_]


class ReplayLog:
    """`sums` is uint32[2, size], by position in the key space; the head says whose is what is held."""

    def __init__(self, head: np.void, sums: NDArray[np.uint32], part: Part) -> None:
        self._head = head
        self._part = part
        self.sums = sums

    @classmethod
    def in_memory(cls, sums: NDArray[np.uint32], capacity: int, switch: int = 0) -> ReplayLog:
        """A new one, of arrays; operations have up to `capacity` keys."""
        content = np.zeros(sum(_sections(0, capacity)), np.uint8)
        head, _, part = _views(content, 0, capacity)
        head["magic"], head["size"], head["capacity"] = _MAGIC, sums.shape[1], capacity
        head["switch"] = switch
        return cls(head, sums, part)

    @classmethod
    def in_file(cls, size: int, capacity: int, switch: int, path: Path) -> ReplayLog:
        """That of a file, or a new one there; `LedgerError` for a file that is none, or of other parameters.

        What another switch held is owed.
        """
        n_bytes = sum(_sections(size, capacity))
        if not path.exists():
            reserve(path, n_bytes)
            with path.open("r+b") as file:
                file.write(np.array([(_MAGIC, size, capacity, switch, 0, 0)], _HEAD).tobytes())
        elif path.stat().st_size != n_bytes:
            raise LedgerError(f"{path}: has {path.stat().st_size} bytes, not {n_bytes} for {size} parameters")
        return cls.reopen(path, switch)

    @classmethod
    def reopen(cls, path: Path, switch: int) -> ReplayLog:
        """That of a file."""
        _check(path)
        log = cls._of(np.asarray(np.memmap(path, dtype=np.uint8, mode="r+")))
        log.restore(switch)
        return log

    @classmethod
    def _of(cls, content: NDArray[np.uint8]) -> ReplayLog:
        head = content[: _HEAD.itemsize].view(_HEAD)[0]
        return cls(*_views(content, int(head["size"]), int(head["capacity"])))

    @property
    def capacity(self) -> int:
        """Keys of an operation at most."""
        return len(self._part.positions)

    @property
    def switch(self) -> int:
        """Number of the switch that holds what is held."""
        return int(self._head["switch"])

    @property
    def has_unreplayed(self) -> bool:
        """Something of it is to be pushed again."""
        return bool(self.sums[UNREPLAYED].any())

    def forget(self) -> None:
        """Be a new one, but for what is sums."""
        self._head["switch"] = self._head["noted"] = self._head["taken"] = 0

    def restore(self, switch: int) -> None:
        """Begin, at a switch, after the end of whoever had it before: what another switch held is owed."""
        self.sums[UNREPLAYED] = self.unacked(switch).sure
        self._head["noted"] = 0
        if self.switch != switch:
            self.sums[HELD] = 0
            self.set_switch(switch)

    def set_switch(self, switch: int) -> None:
        """Set the switch that holds the updates from now on."""
        self._head["switch"] = switch

    def unacked(self, switch: int) -> UnackedUpdates:
        """What is owed where this is the switch, if nobody pushes."""
        sure, unknown = np.array(self.sums[UNREPLAYED]), np.zeros_like(self.sums[UNREPLAYED])
        n, part = int(self._head["noted"]), self._part
        at, deltas = part.positions[:n], part.deltas[:n]
        if self._head["taken"]:
            missing = ~part.answered[:n]
            unknown[at[missing]] = deltas[missing]
        else:
            # Some of it may have been taken.
            sure[at] = deltas
        if self.switch != switch:
            sure += self.sums[HELD]
        return UnackedUpdates(sure, unknown)

    def note(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Before a part is taken from what is owed [n]; returns `answered` [n] for its push to mark."""
        n, part = len(positions), self._part
        self._head["noted"] = self._head["taken"] = 0
        part.positions[:n], part.deltas[:n], part.answered[:n] = positions, deltas, False
        self._head["noted"] = n
        return part.answered[:n]

    def mark_taken(self) -> None:
        """What was noted is no longer in what is owed."""
        self._head["taken"] = 1


def file_name(worker: str, job: int) -> str:
    """Of the log of a worker, as "worker-1"."""
    return f"replay-{worker}-job-{job}.bin"


class Caller(Protocol):
    """Whose log this is."""

    def renew(self, epoch: int) -> None:
        """Come back with another epoch."""
        ...


def renew(client: Caller, log: ReplayLog | None, epoch: int, switch: int) -> None:
    """The switch is another one, which knows the caller by this epoch.

    Switches are numbered as they follow each other. Word of the same one again, or of an earlier one that
    comes late, changes nothing.
    """
    if log is not None and log.switch >= switch:
        return
    client.renew(epoch)
    if log is not None:
        log.set_switch(switch)


def read_unacked(path: Path, switch: int) -> UnackedUpdates:
    """What the worker of a file unreplayed, where this is the switch; raises `LedgerError`."""
    _check(path)
    return ReplayLog._of(np.fromfile(path, dtype=np.uint8)).unacked(switch)


def _check(path: Path) -> None:
    try:
        head = np.fromfile(path, _HEAD, count=1)
        n_bytes = path.stat().st_size
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not len(head) or head[0]["magic"] != _MAGIC:
        raise LedgerError(f"{path}: is no replay log")
    size = int(head[0]["size"])
    if n_bytes != sum(_sections(size, int(head[0]["capacity"]))):
        raise LedgerError(f"{path}: has {n_bytes} bytes, too few or many for {size} parameters")


def _sections(size: int, capacity: int) -> list[int]:
    """Bytes of the head, of what is sums, and of each array of a part."""
    return [_HEAD.itemsize, 2 * 4 * size, 4 * capacity, 4 * capacity, capacity]


def _views(content: NDArray[np.uint8], size: int, capacity: int) -> tuple[np.void, NDArray[np.uint32], Part]:
    head, sums, positions, deltas, answered = np.split(content, np.cumsum(_sections(size, capacity))[:-1])
    part = Part(positions.view(np.uint32), deltas.view(np.uint32), answered.view(np.bool_))
    return head.view(_HEAD)[0], sums.view(np.uint32).reshape(2, size), part
