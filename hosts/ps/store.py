"""The parameters of one job at one PS."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hosts.keys import KeySpace
from protocol.codec import Keys, Values
from protocol.hashing import ps_ids_of
from protocol.header import LANES

_SIGN = 1 << 31
_ONES = np.ones(LANES, dtype=np.uint32)
Positions = NDArray[np.int64]


class Store:
    """Values, owners and update counts by position in the key space; the last element is nobody's.

    A key that is not owned is given away to the switch, or was never this PS's: either way its lanes are
    refused.
    """

    def __init__(self, space: KeySpace, ps: int, n_ps: int) -> None:
        self.space = space
        self.mine = np.append(ps_ids_of(space.all(), n_ps) == ps, np.False_)
        """[size + 1]: in this PS's share, wherever it is now."""
        self.owned = self.mine.copy()
        """[size + 1]: held here."""
        self.values: Values = np.zeros(space.size + 1, dtype=np.uint32)
        """[size + 1]: 0 where not owned."""
        self.updates = np.zeros(space.size + 1, dtype=np.uint32)
        """[size + 1]: pushed lanes applied."""
        self.overflows = 0
        """RPCs with an addition whose result has the wrong sign."""

    def locate(self, keys: Keys) -> Positions:
        """Positions of the keys."""
        return self.space.positions(keys)

    def add(self, at: Positions, deltas: Values) -> None:
        """Add pushed deltas; a position may come more than once."""
        held = self.values[at]
        total = held + deltas
        if ((held ^ total) & (deltas ^ total)).max(initial=0) >= _SIGN:
            self.overflows += 1
        np.add.at(self.values, at, deltas)
        np.add.at(self.updates, at, _ONES[: len(at)])

    def give_away(self, at: Positions) -> Values:
        """Stop owning these keys; returns their values, which are now 0 here."""
        values = self.values[at]
        self.owned[at] = False
        self.values[at] = 0
        return values

    def take_home(self, at: Positions, values: Values) -> None:
        """Own these distinct keys, adding `values` to what is here."""
        self.values[at] += values
        self.owned[at] = True
