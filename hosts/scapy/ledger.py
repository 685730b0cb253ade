"""A worker's ledger: what it has pushed, in a file that survives the worker (`hosts.ledger`).

The file has a head, the sums of all pushes by place in the value space (`hosts.keys`), and an undo log of the
current push: the first places of its rows, their dims, deltas, sums before it, and which of its keys are
acknowledged. The log counts while `open_lanes` in the head is not 0, so a kill at any time leaves the sums
known.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foundation.designs.combination import Combination
from hosts.keys import KeySpace

_MAGIC = 0x484F544C4544474B  # "HOTLEDGK"
_HEAD_WORDS = 10
"""Magic, job, epoch, size, capacity, widest row, lanes, open lanes, lanes before the push, combination."""
_LANES, _OPEN_LANES, _LANES_BEFORE = 6, 7, 8


class LedgerFile:
    """The sums of one job over a space of rows; a push has at most `capacity` distinct ones."""

    def __init__(
        self, job: int, epoch: int, space: KeySpace, capacity: int, path: Path,
        combination: Combination = Combination.ADD,
    ) -> None:  # fmt: skip
        size, widest = space.n_values, max(space.dims)
        lengths = [
            8 * _HEAD_WORDS,
            8 * capacity,
            8 * capacity,
            4 * size,
            4 * capacity * widest,
            4 * capacity * widest,
            capacity,
        ]
        n_bytes = sum(lengths)
        with path.open("wb") as file:
            # Allocated, as a write into a mapping finds no other way to say that the disk is full.
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        content = np.asarray(np.memmap(path, np.uint8, "r+", shape=(n_bytes,)))
        head, first, dims, sums, deltas, before, answered = np.split(content, np.cumsum(lengths)[:-1])
        self._space = space
        self._head, self._sums = head.view(np.int64), sums.view(np.uint32)
        self._first, self._dims = first.view(np.int64), dims.view(np.int64)
        self._deltas, self._before = deltas.view(np.uint32), before.view(np.uint32)
        self._answered = answered.view(np.bool_)
        self._index: dict[int, int] = {}  # key -> index in the undo log
        self._places = np.zeros(0, np.int64)  # of the values of the current push
        self._combination = combination
        self._head[:] = _MAGIC, job, epoch, size, capacity, widest, 0, 0, 0, combination.code

    def open(self, keys: Sequence[int], positions: np.ndarray, deltas: np.ndarray) -> None:
        """Log a push of keys, whose rows are at these positions, before it starts."""
        n, self._index = len(keys), {key: i for i, key in enumerate(keys)}
        self._places = self._space.value_places(positions)
        self._first[:n], self._dims[:n] = self._space.first_values(positions), self._space.dims_at(positions)
        self._deltas[: len(deltas)], self._before[: len(deltas)] = deltas, self._sums[self._places]
        self._answered[:n] = False
        self._head[_LANES_BEFORE] = self._head[_LANES]
        self._head[_OPEN_LANES] = n  # from now on the log counts

    def add(self, key: int) -> None:
        """Mark a key as acknowledged."""
        self._answered[self._index[key]] = True

    def close(self) -> None:
        """Add the push to the sums, or combine both; all of its keys are acknowledged."""
        units = self._combination.units(self._deltas[: len(self._places)])
        self._sums[self._places] = self._combination.merge(self._sums[self._places], units)
        self._head[_LANES] += self._head[_OPEN_LANES]
        self._head[_OPEN_LANES] = 0  # until now the log counted


class AnsweredRows:
    """The rows of a killed worker's push, by key, in its ledger."""

    def __init__(self, keys: Sequence[int], answered: np.ndarray) -> None:
        self._index, self._answered = {key: i for i, key in enumerate(keys)}, answered

    def add(self, key: int) -> None:
        """Mark a key as acknowledged."""
        self._answered[self._index[key]] = True
