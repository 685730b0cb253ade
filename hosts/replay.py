"""A worker's replay log, a file that outlives the process: the updates the switch acknowledged, by value.

Unreplayed updates are pushed again part by part. A part is written to the log before it is removed from the
unreplayed updates, and each answer is marked there. So the log of a killed worker shows which updates are
unreplayed, and which lanes of a replay were not acknowledged. All changes that a reader can see are single
atomic stores, in this order.

Both sums of a value are in one word, which changes by one store. The lower half of a word has the updates
that the current switch acknowledged, the upper half the updates of lost switches, each mod 2^32. A process
that is killed between two stores leaves every word either as it was or as it is to be, so a sum that moves
from one half to the other is never in both, or in neither.

An acknowledged row of several values changes several words. Before the first of them the row's words are
copied behind the words of all rows, and a mark there says whose they are; after the last of them the mark is
removed. Who continues the log of a killed process writes a marked row back, so that the row is logged as a
whole or not at all. Not logged, its push counts as unanswered, as its lane is not marked as answered either.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import MAX_U32, Values
from foundation.protocol.header import DIMS
from hosts.keys import KeySpace, places_of_rows
from hosts.ledger import LedgerError, check_file, create_file
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release
from nativekit.records import Ints, Words
from nativekit.reference import as_ref

_HALF_BITS = 32
_MAGIC = 0x33676F6C79616C70  # arbitrary; "playlog3" in the file, which is little-endian
_FIELDS = ("magic", "size", "capacity", "widest", "switch", "noted", "taken")
_HEAD = np.dtype([(name, "<i8") for name in _FIELDS])
"""`size` is the number of values of all rows, and a part has at most `capacity` rows of `widest` values each.

The current part has `noted` rows; `taken` is 1 if they are removed from the unreplayed updates.
"""
_SWITCH, _NOTED, _TAKEN = map(_FIELDS.index, ("switch", "noted", "taken"))


UNDO_WORDS = 1 + max(DIMS)
"""Words behind those of all rows: a mark, and the former words of the row that is being logged. The mark is 0
without such a row, and otherwise the place of its first value times `_MARK_FACTOR`, plus its dim."""
_MARK_FACTOR = 256
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
def unreplayed_at(words: Ints, place: int) -> int:
    return int64(words[place]) >> _HALF_BITS & MAX_U32


@compiled
def acknowledge(words: Ints, place: int, delta: int) -> None:
    word = int64(words[place])
    total = word + delta & MAX_U32
    store_item_release(words, place, word & ~MAX_U32 | total)


@compiled
def acknowledge_row(words: Ints, first: int, deltas: Words, start: int, dim: int) -> None:
    """Add a row's deltas, `dim` from index `start` on, to the acknowledged sums of its values."""
    if dim == 1:
        acknowledge(words, first, int64(deltas[start]))
        return
    mark = len(words) - UNDO_WORDS
    for v in range(dim):
        words[mark + 1 + v] = words[first + v]
    store_item_release(words, mark, first * _MARK_FACTOR + dim)
    for v in range(dim):
        acknowledge(words, first + v, int64(deltas[start + v]))
    store_item_release(words, mark, 0)


@compiled
def undo_marked_row(words: Ints) -> None:
    """Write the former words of a row back that a killed process was logging."""
    mark = len(words) - UNDO_WORDS
    first, dim = int64(words[mark]) // _MARK_FACTOR, int64(words[mark]) % _MARK_FACTOR
    for v in range(dim):
        store_item_release(words, first + v, int64(words[mark + 1 + v]))
    store_item_release(words, mark, 0)


@compiled
def set_unreplayed(words: Ints, place: int, total: int) -> None:
    store_item_release(words, place, total << _HALF_BITS | int64(words[place]) & MAX_U32)


@compiled
def make_unreplayed(words: Ints) -> None:
    """Move all acknowledged sums to the unreplayed ones, after the loss of the switch."""
    for place in range(len(words) - UNDO_WORDS):
        acknowledged = int64(words[place]) & MAX_U32
        if acknowledged:
            total = unreplayed_at(words, place) + acknowledged & MAX_U32
            store_item_release(words, place, total << _HALF_BITS)


class UnackedUpdates(NamedTuple):
    """Updates that a worker has to replay, uint32[size] by place in the value space."""

    lost: Values  # updates that are known to be lost
    unknown: Values  # deltas whose replay was not acknowledged: each was added once or not at all


class _LogArrays(NamedTuple):
    """The arrays of the file, in this order."""

    head: Ints  # the fields of `_HEAD`
    words: Ints  # int64[size + UNDO_WORDS]: the sums of each value (`hosts.replay`)
    first: Ints  # place of the first value of each row of the current part, [capacity]
    dims: Ints  # of these rows, [capacity]
    deltas: Values  # of these rows, one after the other, [capacity * widest]
    answered: NDArray[np.bool_]  # [capacity]


class ReplayLog:
    """A replay log. Its `acknowledged` updates are those that switch number `switch_number` acknowledged."""

    def __init__(self, arrays: _LogArrays, space: KeySpace) -> None:
        self._arrays = arrays
        self._space = space
        self.words = arrays.words

    @classmethod
    def in_memory(cls, words: Ints, space: KeySpace, capacity: int) -> ReplayLog:
        """Return a log with the words of the caller's array [values of the space + UNDO_WORDS]."""
        widest = max(space.dims)
        sections = _section_bytes(0, capacity, widest)
        arrays = _split_content(np.zeros(sum(sections), np.uint8), sections)
        arrays.head[:] = _MAGIC, space.n_values, capacity, widest, 0, 0, 0
        return cls(arrays._replace(words=words), space)

    @classmethod
    def in_file(cls, space: KeySpace, capacity: int, switch: int, path: Path) -> ReplayLog:
        """Open or create the log; updates of another switch become unreplayed. Raises `LedgerError`."""
        size, widest = space.n_values, max(space.dims)
        n_bytes = sum(_section_bytes(size, capacity, widest))
        if not path.exists():
            head = np.array([(_MAGIC, size, capacity, widest, switch, 0, 0)], _HEAD)
            create_file(path, n_bytes, head.tobytes())
        elif path.stat().st_size != n_bytes:
            raise LedgerError(
                f"{path}: expected {n_bytes} bytes for {size} values, got {path.stat().st_size}"
            )
        return cls.reopen(path, space, switch)

    @classmethod
    def reopen(cls, path: Path, space: KeySpace, switch: int) -> ReplayLog:
        check_file(path, _HEAD, _MAGIC, _sections_of, "replay log")
        log = cls(_arrays_of(np.asarray(np.memmap(path, dtype=np.uint8, mode="r+"))), space)
        log.restore(switch)
        return log

    @property
    def acknowledged(self) -> Values:
        """The updates that the current switch acknowledged, uint32[size] by value, a view."""
        return acknowledged_sums(self.words[:-UNDO_WORDS])

    @property
    def unreplayed(self) -> Values:
        """The updates of lost switches, uint32[size] by value, a view."""
        return unreplayed_sums(self.words[:-UNDO_WORDS])

    @property
    def capacity(self) -> int:
        return len(self._arrays.first)

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
        return _unacked(self._arrays, switch)

    def note(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Write the next part to be replayed, n rows and their deltas, to the log.

        Return `answered`, bool[n], for its push to mark.
        """
        n, arrays = len(positions), self._arrays
        # There is no part while the arrays change. `noted` is first: a part that is done is not noted anew.
        _commit(arrays.head, _NOTED, 0)
        _commit(arrays.head, _TAKEN, 0)
        arrays.first[:n], arrays.dims[:n] = (
            self._space.first_values(positions),
            self._space.dims_at(positions),
        )
        arrays.deltas[: len(deltas)], arrays.answered[:n] = deltas, False
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
    undo_marked_row(log.words)
    # The unknown updates are not replayed, since the switch may have added them.
    if not log.head[_TAKEN]:
        start = 0
        for i in range(int64(log.head[_NOTED])):
            for v in range(int64(log.dims[i])):
                set_unreplayed(log.words, int64(log.first[i]) + v, int64(log.deltas[start + v]))
            start += int64(log.dims[i])
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
    check_file(path, _HEAD, _MAGIC, _sections_of, "replay log")
    arrays = _arrays_of(np.fromfile(path, dtype=np.uint8))
    _undo_marked_row(arrays.words)
    return _unacked(arrays, switch)


@entry_point
def _undo_marked_row(words: Ints) -> None:
    undo_marked_row(words)


def _unacked(arrays: _LogArrays, switch: int) -> UnackedUpdates:
    words = arrays.words[:-UNDO_WORDS]
    lost, unknown = np.array(unreplayed_sums(words)), np.zeros(len(words), np.uint32)
    n = int(arrays.head[_NOTED])
    dims = arrays.dims[:n]
    places, deltas = places_of_rows(arrays.first[:n], dims), arrays.deltas[: dims.sum()]
    if arrays.head[_TAKEN]:
        is_unanswered = (~arrays.answered[:n]).repeat(dims)
        unknown[places[is_unanswered]] = deltas[is_unanswered]
    else:
        # Some of the part may have been removed from the unreplayed updates.
        lost[places] = deltas
    if arrays.head[_SWITCH] != switch:
        lost += acknowledged_sums(words)
    return UnackedUpdates(lost, unknown)


def _section_bytes(size: int, capacity: int, widest: int) -> list[int]:
    # In the order of `_LogArrays`: numbers are int64, deltas uint32, and `answered` has bytes.
    return [
        _HEAD.itemsize, 8 * (size + UNDO_WORDS), 8 * capacity, 8 * capacity, 4 * capacity * widest, capacity
    ]  # fmt: skip


def _sections_of(head: np.void) -> list[int]:
    return _section_bytes(int(head["size"]), int(head["capacity"]), int(head["widest"]))


def _arrays_of(content: NDArray[np.uint8]) -> _LogArrays:
    return _split_content(content, _sections_of(content[: _HEAD.itemsize].view(_HEAD)[0]))


def _split_content(content: NDArray[np.uint8], sections: list[int]) -> _LogArrays:
    head, words, first, dims, deltas, answered = np.split(content, np.cumsum(sections)[:-1])
    return _LogArrays(
        head.view(np.int64),
        words.view(np.int64),
        first.view(np.int64),
        dims.view(np.int64),
        deltas.view(np.uint32),
        answered.view(np.bool_),
    )
