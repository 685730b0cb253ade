"""The ledger of all pushes of an arm. Workers share it, because no simulated process dies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values


class SimulatedPushLedger:
    """Sums modulo 2^32 over `size` parameters, and the number of lanes that were acknowledged."""

    def __init__(self, size: int) -> None:
        self.sums = np.zeros(size, np.uint32)
        self.lanes = 0

    def for_worker(self) -> WorkerLedger:
        return WorkerLedger(self)


class WorkerLedger:
    def __init__(self, ledger: SimulatedPushLedger) -> None:
        self._ledger = ledger
        self._positions = np.zeros(0, np.int64)
        self._deltas = np.zeros(0, np.uint32)
        self._answered = np.zeros(0, np.bool_)

    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        self._positions, self._deltas = positions.astype(np.int64), deltas
        self._answered = np.zeros(len(positions), np.bool_)
        return self._answered

    def close(self) -> None:
        answered = self._answered
        self._ledger.sums[self._positions[answered]] += self._deltas[answered]
        self._ledger.lanes += int(answered.sum())
