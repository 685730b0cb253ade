"""A worker's replay log, a file that outlives the process: the updates the switch acknowledged, by key.

Unreplayed updates are pushed again part by part. A part is written to the log before it is removed from the
unreplayed updates, and each answer is marked there. So the log of a killed worker shows which updates are
unreplayed, and which lanes of a replay were not acknowledged.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values
from hosts.worker.ledger import LedgerError, check_file, reserve

ACKNOWLEDGED, UNREPLAYED = 0, 1
"""Rows of a replay log: updates that the current switch acknowledged, and updates of lost switches."""
_MAGIC = 0x676F6C79616C7066  # arbitrary; "fplaylog" in the file, which is little-endian
_HEAD = np.dtype([(name, "<i8") for name in ("magic", "size", "capacity", "switch", "noted", "taken")])
"""The current part has `noted` keys; `taken` is 1 if they are removed from the unreplayed updates."""


NO_SWITCH = -1
"""Number of the current switch if there is none: all acknowledged updates are to be replayed."""


class UnackedUpdates(NamedTuple):
    """Updates that a worker has to replay, uint32[size] by position."""

    lost: Values  # updates that are known to be lost
    unknown: Values  # deltas whose replay was not acknowledged: each was added once or not at all


class Part(NamedTuple):
    positions: NDArray[np.uint32]
    deltas: Values
    answered: NDArray[np.bool_]


class ReplayLog:
    """A replay log. `sums` is uint32[2, size]; the row ACKNOWLEDGED is for switch number `head["switch"]`."""

    def __init__(self, head: np.void, sums: NDArray[np.uint32], part: Part) -> None:
        self._head = head
        self._part = part
        self.sums = sums

    @classmethod
    def in_memory(cls, sums: NDArray[np.uint32], capacity: int) -> ReplayLog:
        # Without a section for sums: the caller's array has them.
        content = np.zeros(sum(_section_bytes(0, capacity)), np.uint8)
        head, _, part = _split_content(content, 0, capacity)
        head["magic"], head["size"], head["capacity"] = _MAGIC, sums.shape[1], capacity
        return cls(head, sums, part)

    @classmethod
    def in_file(cls, size: int, capacity: int, switch: int, path: Path) -> ReplayLog:
        """Open or create the log; updates of another switch become unreplayed. Raises `LedgerError`."""
        n_bytes = sum(_section_bytes(size, capacity))
        if not path.exists():
            reserve(path, n_bytes)
            with path.open("r+b") as file:
                file.write(np.array([(_MAGIC, size, capacity, switch, 0, 0)], _HEAD).tobytes())
        elif path.stat().st_size != n_bytes:
            raise LedgerError(
                f"{path}: expected {n_bytes} bytes for {size} parameters, got {path.stat().st_size}"
            )
        return cls.reopen(path, switch)

    @classmethod
    def reopen(cls, path: Path, switch: int) -> ReplayLog:
        check_file(path, _HEAD, _MAGIC, _section_bytes, "replay log")
        log = cls._from_content(np.asarray(np.memmap(path, dtype=np.uint8, mode="r+")))
        log.restore(switch)
        return log

    @classmethod
    def _from_content(cls, content: NDArray[np.uint8]) -> ReplayLog:
        head = content[: _HEAD.itemsize].view(_HEAD)[0]
        return cls(*_split_content(content, int(head["size"]), int(head["capacity"])))

    @property
    def capacity(self) -> int:
        return len(self._part.positions)

    @property
    def switch_number(self) -> int:
        return int(self._head["switch"])

    @property
    def has_unreplayed(self) -> bool:
        return bool(self.sums[UNREPLAYED].any())

    def reset_head(self) -> None:
        self._head["switch"] = self._head["noted"] = self._head["taken"] = 0

    def restore(self, switch: int) -> None:
        """Continue after a previous process; updates that another switch held become unreplayed."""
        # The unknown updates are not replayed, since the switch may have added them.
        self.sums[UNREPLAYED] = self.unacked(switch).lost
        self._head["noted"] = 0
        if self.switch_number != switch:
            self.sums[ACKNOWLEDGED] = 0
            self.set_switch(switch)

    def set_switch(self, switch: int) -> None:
        self._head["switch"] = switch

    def unacked(self, switch: int) -> UnackedUpdates:
        """Return the updates to replay if `switch` is the current switch; no push may be running."""
        lost, unknown = np.array(self.sums[UNREPLAYED]), np.zeros_like(self.sums[UNREPLAYED])
        n, part = int(self._head["noted"]), self._part
        positions, deltas = part.positions[:n], part.deltas[:n]
        if self._head["taken"]:
            is_unanswered = ~part.answered[:n]
            unknown[positions[is_unanswered]] = deltas[is_unanswered]
        else:
            # Some of the part may have been removed from the unreplayed updates.
            lost[positions] = deltas
        if self.switch_number != switch:
            lost += self.sums[ACKNOWLEDGED]
        return UnackedUpdates(lost, unknown)

    def note(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Write the next part to be replayed to the log; return `answered`, bool[n], for its push to mark."""
        n, part = len(positions), self._part
        self._head["noted"] = self._head["taken"] = 0  # no part while the arrays change
        part.positions[:n], part.deltas[:n], part.answered[:n] = positions, deltas, False
        self._head["noted"] = n
        return part.answered[:n]

    def mark_taken(self) -> None:
        self._head["taken"] = 1


def file_name(worker: str, job: int) -> str:
    return f"replay-{worker}-job-{job}.bin"


class Renewable(Protocol):
    def renew(self, epoch: int) -> None: ...


def renew(client: Renewable, log: ReplayLog | None, epoch: int, switch: int) -> None:
    """Continue with switch number `switch`; change nothing if `log` has this number or a later one."""
    if log is not None and log.switch_number >= switch:
        return
    client.renew(epoch)
    if log is not None:
        log.set_switch(switch)


def read_unacked(path: Path, switch: int) -> UnackedUpdates:
    check_file(path, _HEAD, _MAGIC, _section_bytes, "replay log")
    return ReplayLog._from_content(np.fromfile(path, dtype=np.uint8)).unacked(switch)


def _section_bytes(size: int, capacity: int) -> list[int]:
    # Both rows of sums and the arrays of a part: uint32, but `answered` has bytes.
    return [_HEAD.itemsize, 2 * 4 * size, 4 * capacity, 4 * capacity, capacity]


def _split_content(
    content: NDArray[np.uint8], size: int, capacity: int
) -> tuple[np.void, NDArray[np.uint32], Part]:
    end_offsets = np.cumsum(_section_bytes(size, capacity))
    head, sums, positions, deltas, answered = np.split(content, end_offsets[:-1])
    part = Part(positions.view(np.uint32), deltas.view(np.uint32), answered.view(np.bool_))
    return head.view(_HEAD)[0], sums.view(np.uint32).reshape(2, size), part
