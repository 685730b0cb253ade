"""A worker's replay log, a file that outlives the process: the updates the switch acknowledged, by value.

Unreplayed updates are pushed again part by part. A part is written to the log before it is removed from the
unreplayed updates, and each answer is marked there. So the log of a killed worker shows which updates are
unreplayed, and which lanes of a replay were not acknowledged. All changes that a reader can see are single
atomic stores, in this order.

Both sums of a value are in one word, which changes by one store. The lower half of a word has the updates
that the current switch acknowledged, the upper half the updates of lost switches, each mod 2^32. A process
that is killed between two stores leaves every word either as it was or as it is to be, so a sum that moves
from one half to the other is never in both, or in neither.

An acknowledged row of several values changes several words, and is then marked as answered in another file,
the ledger. Before the first word the row's words are copied behind the words of all rows, and a mark there
says whose they are; after the last word the mark says that the row is logged, and it is removed when the row
is marked as answered. Who continues the log of a killed process writes a row back that was being logged, so
that the row is logged as a whole or not at all. A worker that takes the killed one's rank marks a row that is
logged as answered (`hosts.succession`).

In a network of switches each home, a switch with hot sets, is lost by itself. So the log has a switch number
for each home, and if there are several, the home of each value. If servers have a home at each of two levels,
the log has all values once for each level, with what the homes of that level acknowledged.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import MAX_U32, Values
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.leaf_spine import ServerHomes
from hosts.keys import KeySpace, places_of_rows
from hosts.ledger import LedgerError, check_file, create_file
from hosts.replay_words import (
    UNDO_WORDS,
    acknowledge_row,
    acknowledged_sums,
    logged_place,
    make_unreplayed,
    mark_logged,
    mark_row,
    remove_mark,
    set_unreplayed,
    undo_marked_row,
    unreplayed_at,
    unreplayed_sums,
)
from nativekit.compile import int64
from nativekit.memory import store_item_release
from nativekit.records import Ints
from nativekit.reference import as_ref

_MAGIC = 0x35676F6C79616C70  # arbitrary; "playlog5" in the file, which is little-endian
_FIELDS = ("magic", "size", "capacity", "widest", "homes", "levels", "noted", "taken")
_HEAD = np.dtype([(name, "<i8") for name in _FIELDS])
"""`size` is the number of values of all rows, at all levels together.

A part has at most `capacity` rows of `widest` values each. The current part has `noted` rows; `taken` is 1 if
they are removed from the unreplayed updates.
"""
_LEVELS, _NOTED, _TAKEN = map(_FIELDS.index, ("levels", "noted", "taken"))
SwitchNumbers = tuple[int, ...]
"""How often the switch of each home has restarted."""
NO_SWITCHES: SwitchNumbers = ()
"""The numbers if no switch is left: all acknowledged updates are to be replayed."""
_LOST = -1  # number of a switch that is not left


class UnackedUpdates(NamedTuple):
    """Updates that a worker has to replay, uint32[size] by place in the value space."""

    lost: Values  # updates that are known to be lost
    unknown: Values  # deltas whose replay was not acknowledged: each was added once or not at all


class _LogArrays(NamedTuple):
    """The arrays of the file, in this order."""

    head: Ints  # the fields of `_HEAD`
    switches: Ints  # int64[homes]: number of the switch that acknowledged updates
    homes: Ints  # int64[size]: home of each value; empty if there is one home
    words: Ints  # int64[size + UNDO_WORDS]: the sums of each value (`hosts.replay`)
    first: Ints  # place of the first value of each row of the current part, [capacity]
    dims: Ints  # of these rows, [capacity]
    deltas: Values  # of these rows, one after the other, [capacity * widest]
    answered: NDArray[np.bool_]  # [capacity]


class ReplayLog:
    """A replay log. Its `acknowledged` updates are those that the switches `switch_numbers` acknowledged."""

    def __init__(self, arrays: _LogArrays, space: KeySpace) -> None:
        self._arrays = arrays
        self._space = space
        self.words = arrays.words

    @classmethod
    def in_memory(cls, words: Ints, space: KeySpace, capacity: int, homes: ServerHomes = ()) -> ReplayLog:
        """Return a log with the words of the caller's array [levels * values of the space + UNDO_WORDS].

        `homes` is empty for a single switch.
        """
        widest, n_homes, levels = max(space.dims), _count_homes(homes), len(homes) or 1
        sections = _section_bytes(0, capacity, widest, n_homes)
        arrays = _split_content(np.zeros(sum(sections), np.uint8), sections)
        arrays.head[:] = _MAGIC, levels * space.n_values, capacity, widest, n_homes, levels, 0, 0
        return cls(arrays._replace(words=words, homes=_homes_of_values(space, homes)), space)

    @classmethod
    def in_file(
        cls, space: KeySpace, capacity: int, switches: SwitchNumbers, path: Path, homes: ServerHomes = ()
    ) -> ReplayLog:
        """Open or create the log; updates of other switches become unreplayed. Raises `LedgerError`.

        `homes` is empty for a single switch.
        """
        levels, widest, n_homes = len(homes) or 1, max(space.dims), _count_homes(homes)
        size = levels * space.n_values
        n_bytes = sum(_section_bytes(size, capacity, widest, n_homes))
        if not path.exists():
            head = np.array([(_MAGIC, size, capacity, widest, n_homes, levels, 0, 0)], _HEAD)
            first_arrays = (head, np.array(switches, np.int64), _homes_of_values(space, homes))
            create_file(path, n_bytes, b"".join(each.tobytes() for each in first_arrays))
        elif path.stat().st_size != n_bytes:
            raise LedgerError(
                f"{path}: expected {n_bytes} bytes for {size} values, got {path.stat().st_size}"
            )
        return cls.reopen(path, space, switches)

    @classmethod
    def reopen(cls, path: Path, space: KeySpace, switches: SwitchNumbers) -> ReplayLog:
        check_file(path, _HEAD, _MAGIC, _sections_of, "replay log")
        log = cls(_arrays_of(np.asarray(np.memmap(path, dtype=np.uint8, mode="r+"))), space)
        log.restore(switches)
        return log

    @classmethod
    def of_killed_worker(cls, path: Path, space: KeySpace) -> ReplayLog:
        """Map the log of a worker that has ended, before `reopen` continues it. Raises `LedgerError`."""
        check_file(path, _HEAD, _MAGIC, _sections_of, "replay log")
        log = cls(_arrays_of(np.asarray(np.memmap(path, dtype=np.uint8, mode="r+"))), space)
        _undo_marked_row(log.words)
        return log

    @property
    def acknowledged(self) -> Values:
        """The updates that the current switches acknowledged, uint32[size] by level and value, a view."""
        return acknowledged_sums(self.words[:-UNDO_WORDS])

    @property
    def unreplayed(self) -> Values:
        """The updates of lost switches, uint32[size] by level and value, a view."""
        return unreplayed_sums(self.words[:-UNDO_WORDS])

    @property
    def levels(self) -> int:
        """The number of levels of homes, each of which has acknowledged updates by itself."""
        return int(self._arrays.head[_LEVELS])

    @property
    def capacity(self) -> int:
        return len(self._arrays.first)

    @property
    def switch_numbers(self) -> SwitchNumbers:
        return tuple(self._arrays.switches.tolist())

    @property
    def has_unreplayed(self) -> bool:
        return bool(self.unreplayed.any())

    def reset_head(self) -> None:
        self._arrays.head[[_NOTED, _TAKEN]] = 0
        self._arrays.switches[:] = 0

    def restore(self, switches: SwitchNumbers) -> None:
        """Continue after a previous process; updates that other switches held become unreplayed."""
        _restore(self._arrays, _current_switches(self._arrays, switches))

    def set_switch(self, number: int, home: int = 0) -> None:
        _commit(self._arrays.switches, home, number)

    def unacked(self, switches: SwitchNumbers) -> UnackedUpdates:
        """Return the updates to replay if `switches` are the current ones; no push may be running."""
        return _unacked(self._arrays, switches)

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

    @property
    def unfinished_part(self) -> UnfinishedPart:
        """The part that is being pushed; no worker may run that uses the log."""
        return UnfinishedPart(self._arrays)

    @property
    def logged_place(self) -> int | None:
        """Place of the row that was logged last, if the worker was killed before it had marked its answer."""
        return logged_place(self.words)

    def acknowledge(self, place: int, deltas: Values) -> None:
        """Log a row's deltas as acknowledged; `remove_mark` follows when the row is marked as answered."""
        _acknowledge(self.words, place, deltas)

    def remove_mark(self) -> None:
        _remove_mark(self.words)


class UnfinishedPart:
    """The part of a replay that a killed worker had begun to push; it has no rows if there is none."""

    def __init__(self, arrays: _LogArrays) -> None:
        self._arrays = arrays
        n = int(arrays.head[_NOTED]) if arrays.head[_TAKEN] else 0
        self.first, self.answered = arrays.first[:n], arrays.answered[:n]
        """Place of the first value of each row in the value space, and whether the row was acknowledged."""

    @property
    def is_done(self) -> bool:
        return bool(self.answered.all())

    def return_unanswered(self) -> None:
        """Make the rows without an answer, which were not added, unreplayed again, and mark them."""
        _return_unanswered(self._arrays, len(self.first))


@entry_point
def _commit(head: Ints, field: int, value: int) -> None:
    store_item_release(head, field, value)


@entry_point
def _acknowledge(words: Ints, place: int, deltas: Values) -> None:
    acknowledge_row(words, place, deltas, 0, len(deltas))


@entry_point
def _remove_mark(words: Ints) -> None:
    remove_mark(words)


@entry_point
def _return_unanswered(log: _LogArrays, n: int) -> None:
    log, start = as_ref(log), int64(0)
    for i in range(n):
        first, dim = int64(log.first[i]), int64(log.dims[i])
        if not log.answered[i]:
            mark_row(log.words, first, dim)
            for v in range(dim):
                total = unreplayed_at(log.words, first + v) + int64(log.deltas[start + v])
                set_unreplayed(log.words, first + v, total & MAX_U32)
            mark_logged(log.words)
            store_item_release(log.answered, i, True)
            remove_mark(log.words)
        start += dim


@entry_point
def _restore(log: _LogArrays, switches: Ints) -> None:
    log = as_ref(log)
    undo_marked_row(log.words)
    remove_mark(log.words)
    # The unknown updates are not replayed, since the switch may have added them.
    levels = int64(log.head[_LEVELS])
    values = (len(log.words) - UNDO_WORDS) // levels
    if not log.head[_TAKEN]:
        start = 0
        for i in range(int64(log.head[_NOTED])):
            for v in range(int64(log.dims[i])):
                place = int64(log.first[i]) + v
                set_unreplayed(log.words, place, int64(log.deltas[start + v]))
                for level in range(1, levels):  # the part has the updates of all levels
                    set_unreplayed(log.words, level * values + place, 0)
            start += int64(log.dims[i])
    store_item_release(log.head, _NOTED, 0)
    if len(switches) == 1:
        if log.switches[0] != switches[0]:
            make_unreplayed(log.words, 0, len(log.words) - UNDO_WORDS)
    else:
        for place in range(len(log.homes)):
            home = int64(log.homes[place])
            if log.switches[home] != switches[home]:
                make_unreplayed(log.words, place, place + 1)
    for home in range(len(switches)):
        store_item_release(log.switches, home, int64(switches[home]))


def file_name(worker: str, job: int) -> str:
    return f"replay-{worker}-job-{job}.bin"


class Renewable(Protocol):
    def renew(self, epoch: int, home: int = 0) -> None: ...


def renew(client: Renewable, log: ReplayLog | None, epoch: int, switch: int, home: int = 0) -> None:
    """Continue with switch number `switch` of a home; change nothing if `log` has it or a later one."""
    if log is not None and log.switch_numbers[home] >= switch:
        return
    client.renew(epoch, home)
    if log is not None:
        log.set_switch(switch, home)


def read_unacked(path: Path, switches: SwitchNumbers) -> UnackedUpdates:
    check_file(path, _HEAD, _MAGIC, _sections_of, "replay log")
    arrays = _arrays_of(np.fromfile(path, dtype=np.uint8))
    _undo_marked_row(arrays.words)
    return _unacked(arrays, switches)


@entry_point
def _undo_marked_row(words: Ints) -> None:
    undo_marked_row(words)


def _unacked(arrays: _LogArrays, switches: SwitchNumbers) -> UnackedUpdates:
    words = arrays.words[:-UNDO_WORDS]
    lost = _sum_levels(arrays, unreplayed_sums(words))
    unknown = np.zeros_like(lost)
    n = int(arrays.head[_NOTED])
    dims = arrays.dims[:n]
    places, deltas = places_of_rows(arrays.first[:n], dims), arrays.deltas[: dims.sum()]
    if arrays.head[_TAKEN]:
        is_unanswered = (~arrays.answered[:n]).repeat(dims)
        unknown[places[is_unanswered]] = deltas[is_unanswered]
    else:
        # Some of the part may have been removed from the unreplayed updates.
        lost[places] = deltas
    is_home_lost = arrays.switches != _current_switches(arrays, switches)
    is_lost = is_home_lost[arrays.homes] if len(is_home_lost) > 1 else is_home_lost
    lost += _sum_levels(arrays, np.where(is_lost, acknowledged_sums(words), np.uint32(0)))
    return UnackedUpdates(lost, unknown)


def _current_switches(arrays: _LogArrays, switches: SwitchNumbers) -> Ints:
    return np.array(switches or [_LOST] * len(arrays.switches), np.int64)


def _sum_levels(arrays: _LogArrays, sums: Values) -> Values:
    """Return the sums of values over all levels, given those of each."""
    total: Values = sums.reshape(int(arrays.head[_LEVELS]), -1).sum(axis=0, dtype=np.uint32)
    return total


def _count_homes(homes: ServerHomes) -> int:
    return max(chain(*homes), default=0) + 1


def _homes_of_values(space: KeySpace, homes: ServerHomes) -> Ints:
    if _count_homes(homes) == 1:
        return np.zeros(0, np.int64)
    of_servers = np.array(homes, np.int64)
    of_rows = of_servers[:, ps_ids_of(space.all(), of_servers.shape[1])]
    return of_rows.repeat(space.dims_at(np.arange(space.size)), axis=1).ravel()


def _section_bytes(size: int, capacity: int, widest: int, homes: int) -> list[int]:
    # In the order of `_LogArrays`: numbers are int64, deltas uint32, and `answered` has bytes.
    homes_of_values = 8 * size if homes > 1 else 0
    return [
        _HEAD.itemsize, 8 * homes, homes_of_values, 8 * (size + UNDO_WORDS), 8 * capacity, 8 * capacity,
        4 * capacity * widest, capacity,
    ]  # fmt: skip


def _sections_of(head: np.void) -> list[int]:
    return _section_bytes(*(int(head[name]) for name in ("size", "capacity", "widest", "homes")))


def _arrays_of(content: NDArray[np.uint8]) -> _LogArrays:
    return _split_content(content, _sections_of(content[: _HEAD.itemsize].view(_HEAD)[0]))


def _split_content(content: NDArray[np.uint8], sections: list[int]) -> _LogArrays:
    head, switches, homes, words, first, dims, deltas, answered = np.split(content, np.cumsum(sections)[:-1])
    return _LogArrays(
        head.view(np.int64),
        switches.view(np.int64),
        homes.view(np.int64),
        words.view(np.int64),
        first.view(np.int64),
        dims.view(np.int64),
        deltas.view(np.uint32),
        answered.view(np.bool_),
    )
