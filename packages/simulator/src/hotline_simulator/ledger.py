"""The ledger of all pushes of an arm. Workers share it, because no simulated process dies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.designs.combination import Combination
from foundation.protocol.codec import Values
from hosts.keys import KeySpace


class SimulatedPushLedger:
    """What all values of a space of rows are after the pushes, and how many lanes were acknowledged."""

    def __init__(self, space: KeySpace, combination: Combination = Combination.ADD) -> None:
        self.space, self.combination = space, combination
        self.sums = np.zeros(space.n_values, np.uint32)
        self.lanes = 0

    def for_worker(self) -> WorkerLedger:
        return WorkerLedger(self)


class NoLedger:
    """Takes the place of a worker's ledger in simulations whose updates are not reconciled."""

    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        return np.zeros(len(positions), np.bool_)

    def close(self) -> None:
        pass


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
        answered, space = self._answered, self._ledger.space
        positions, deltas = self._positions, self._deltas
        if not answered.all():
            deltas = deltas[answered.repeat(space.dims_at(positions))]
            positions = positions[answered]
        places, combination = space.value_places(positions), self._ledger.combination
        sums = self._ledger.sums
        sums[places] = combination.merge(sums[places], combination.units(deltas))
        self._ledger.lanes += len(positions)
