"""A worker's replay log, a file that outlives the process: the updates the switch acknowledged, by key.

Unreplayed updates are pushed again part by part. A part is written to the log before it is removed from the
unreplayed updates, and each answer is marked there. So the log of a killed worker shows which updates are
unreplayed, and which lanes of a replay were not acknowledged. All changes that a reader can see are single
atomic stores, in this order.

Both sums of a parameter are in one word, which changes by one store. The lower half of a word has the updates
that the current switch acknowledged, the upper half the updates of lost switches, each mod 2^32. A process
that is killed between two stores leaves every word either as it was or as it is to be, so a sum that moves
from one half to the other is never in both, or in neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import MAX_U32, Values
from hosts.worker.ledger import LedgerError, check_file, create_file
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release
from nativekit.records import Ints
from nativekit.reference import as_ref

_HALF_BITS = 32
_MAGIC = 0x32676F6C79616C70  # arbitrary; "playlog2" in the file, which is little-endian
_FIELDS = ("magic", "size", "capacity", "switch", "noted", "taken")
_HEAD = np.dtype([(name, "<i8") for name in _FIELDS])
"""The current part has `noted` keys; `taken` is 1 if they are removed from the unreplayed updates."""
_SWITCH, _NOTED, _TAKEN = map(_FIELDS.index, ("switch", "noted", "taken"))


NO_SWITCH = -1
"""Number of the current switch if there is none: all acknowledged updates are to be replayed."""


def acknowledged_sums(words: Ints) -> NDArray[np.uint32]:
    """Return a view of the sums that the current switch acknowledged, of words of any shape."""
    sums: NDArray[np.uint32] = words.view(np.uint32)[..., 0::2]  # little-endian
    return sums


def unreplayed_sums(words: Ints) -> NDArray[np.uint32]:
    """Return a view of the sums of updates that lost switches had acknowledged."""
    sums: NDArray[np.uint32] = words.view(np.uint32)[..., 1::2]
    return sums


@compiled
def unreplayed_at(words: Ints, position: int) -> int:
    return int64(words[position]) >> _HALF_BITS & MAX_U32


@compiled
def acknowledge(words: Ints, position: int, delta: int) -> None:
    word = int64(words[position])
    total = word + delta & MAX_U32
    store_item_release(words, position, word & ~MAX_U32 | total)


@compiled
def set_unreplayed(words: Ints, position: int, total: int) -> None:
    store_item_release(words, position, total << _HALF_BITS | int64(words[position]) & MAX_U32)


@compiled
def make_unreplayed(words: Ints) -> None:
    """Move all acknowledged sums to the unreplayed ones, after the loss of the switch."""
    for position in range(len(words)):
        acknowledged = int64(words[position]) & MAX_U32
        if acknowledged:
            total = unreplayed_at(words, position) + acknowledged & MAX_U32
            store_item_release(words, position, total << _HALF_BITS)


class UnackedUpdates(NamedTuple):
    """Updates that a worker has to replay, uint32[size] by position."""

    lost: Values  # updates that are known to be lost
    unknown: Values  # deltas whose replay was not acknowledged: each was added once or not at all


class _LogArrays(NamedTuple):
    """The arrays of the file, in this order."""

    head: Ints  # the fields of `_HEAD`
    words: Ints  # int64[size]: the sums of each parameter (`hosts.worker.replay`)
    positions: NDArray[np.uint32]  # of the current part, like `deltas` and `answered`: [capacity]
    deltas: Values
    answered: NDArray[np.bool_]


class ReplayLog:
    """A replay log. Its `acknowledged` updates are those that switch number `switch_number` acknowledged."""

    def __init__(self, arrays: _LogArrays) -> None:
        self._arrays = arrays
        self.words = arrays.words

    @classmethod
    def in_memory(cls, words: Ints, capacity: int) -> ReplayLog:
        # Without a section for words: the caller's array has them.
        content = np.zeros(sum(_section_bytes(0, capacity)), np.uint8)
        arrays = _split_content(content, 0, capacity)
        arrays.head[:] = _MAGIC, len(words), capacity, 0, 0, 0
        return cls(arrays._replace(words=words))

    @classmethod
    def in_file(cls, size: int, capacity: int, switch: int, path: Path) -> ReplayLog:
        """Open or create the log; updates of another switch become unreplayed. Raises `LedgerError`."""
        n_bytes = sum(_section_bytes(size, capacity))
        if not path.exists():
            head = np.array([(_MAGIC, size, capacity, switch, 0, 0)], _HEAD)
            create_file(path, n_bytes, head.tobytes())
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
        return cls(_split_content(content, int(head["size"]), int(head["capacity"])))

    @property
    def acknowledged(self) -> Values:
        """The updates that the current switch acknowledged, uint32[size] by position, a view."""
        return acknowledged_sums(self.words)

    @property
    def unreplayed(self) -> Values:
        """The updates of lost switches, uint32[size] by position, a view."""
        return unreplayed_sums(self.words)

    @property
    def capacity(self) -> int:
        return len(self._arrays.positions)

    @property
    def switch_number(self) -> int:
        return int(self._arrays.head[_SWITCH])

    @property
    def has_unreplayed(self) -> bool:
        return bool(self.unreplayed.any())

    def reset_head(self) -> None:
        self._arrays.head[[_SWITCH, _NOTED, _TAKEN]] = 0

    def restore(self, switch: int) -> None:
        """Continue after a previous process; updates that another switch held become unreplayed."""
        _restore(self._arrays, switch)

    def set_switch(self, switch: int) -> None:
        _commit(self._arrays.head, _SWITCH, switch)

    def unacked(self, switch: int) -> UnackedUpdates:
        """Return the updates to replay if `switch` is the current switch; no push may be running."""
        lost, unknown = np.array(self.unreplayed), np.zeros(len(self.words), np.uint32)
        arrays = self._arrays
        n = int(arrays.head[_NOTED])
        positions, deltas = arrays.positions[:n], arrays.deltas[:n]
        if arrays.head[_TAKEN]:
            is_unanswered = ~arrays.answered[:n]
            unknown[positions[is_unanswered]] = deltas[is_unanswered]
        else:
            # Some of the part may have been removed from the unreplayed updates.
            lost[positions] = deltas
        if self.switch_number != switch:
            lost += self.acknowledged
        return UnackedUpdates(lost, unknown)

    def note(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Write the next part to be replayed to the log; return `answered`, bool[n], for its push to mark."""
        n, arrays = len(positions), self._arrays
        # There is no part while the arrays change. `noted` is first: a part that is done is not noted anew.
        _commit(arrays.head, _NOTED, 0)
        _commit(arrays.head, _TAKEN, 0)
        arrays.positions[:n], arrays.deltas[:n], arrays.answered[:n] = positions, deltas, False
        _commit(arrays.head, _NOTED, n)
        return arrays.answered[:n]

    def mark_taken(self) -> None:
        _commit(self._arrays.head, _TAKEN, 1)


@entry_point
def _commit(head: Ints, field: int, value: int) -> None:
    store_item_release(head, field, value)


@entry_point
def _restore(log: _LogArrays, switch: int) -> None:
    log = as_ref(log)
    # The unknown updates are not replayed, since the switch may have added them.
    if not log.head[_TAKEN]:
        for i in range(int64(log.head[_NOTED])):
            set_unreplayed(log.words, int64(log.positions[i]), int64(log.deltas[i]))
    store_item_release(log.head, _NOTED, 0)
    if log.head[_SWITCH] != switch:
        make_unreplayed(log.words)
        store_item_release(log.head, _SWITCH, switch)


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
    # In the order of `_LogArrays`: words are int64, positions and deltas uint32, and `answered` has bytes.
    return [_HEAD.itemsize, 8 * size, 4 * capacity, 4 * capacity, capacity]


def _split_content(content: NDArray[np.uint8], size: int, capacity: int) -> _LogArrays:
    end_offsets = np.cumsum(_section_bytes(size, capacity))
    head, words, positions, deltas, answered = np.split(content, end_offsets[:-1])
    return _LogArrays(
        head.view(np.int64),
        words.view(np.int64),
        positions.view(np.uint32),
        deltas.view(np.uint32),
        answered.view(np.bool_),
    )
