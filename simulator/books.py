"""What all workers of an arm have pushed: their ledgers in one, as no process dies here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values


class ArmBook:
    """Sums modulo 2^32 over `size` parameters, and the number of lanes."""

    def __init__(self, size: int) -> None:
        self.sums = np.zeros(size, np.uint32)
        self.lanes = 0

    def of_worker(self) -> WorkerBook:
        """A ledger for one of the workers, as `hosts.worker.trainer` uses it."""
        return WorkerBook(self)


class WorkerBook:
    """The push of a worker that is under way."""

    def __init__(self, book: ArmBook) -> None:
        self._book = book
        self._positions = np.zeros(0, np.int64)
        self._deltas = np.zeros(0, np.uint32)
        self._answered = np.zeros(0, np.bool_)

    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Before a push of these distinct parameters [n]; returns `answered` [n]."""
        self._positions, self._deltas = positions.astype(np.int64), deltas
        self._answered = np.zeros(len(positions), np.bool_)
        return self._answered

    def close(self) -> None:
        """The push has ended: every lane that was answered counts."""
        done = self._answered
        self._book.sums[self._positions[done]] += self._deltas[done]
        self._book.lanes += int(done.sum())
