"""Hash with first come: whoever holds a slot stays until it is cleared, at the end of the period.

(ATP's aggregators: Lao et al., NSDI 2021.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from studies.policies.compiling import entry_point, int64
from studies.policies.log import KEY, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Kind, Policy, no_moves
from studies.policies.rules.hashing import mixed, reduced

_FREE = -1
_SEED = 17


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """One slot for each key of the size."""
    (size,), moves = sizes, no_moves(sizes)
    slots = np.full(size, _FREE, np.int32)

    def turn() -> None:
        moves[EVICTIONS, 0] += np.count_nonzero(slots != _FREE)
        slots[:] = _FREE

    return Policy(partial(_serve, slots, moves), moves, turn)


@entry_point
def _serve(slots: Any, moves: Any, accesses: Any, levels: Any) -> None:
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = reduced(mixed(key, _SEED), len(slots))
        levels[i] = slots[slot] != key
        if slots[slot] == _FREE:
            slots[slot] = key
            moves[INSTALLS, 0] += 1


FIRST_COME = Kind(
    "first-come",
    "first come",
    "hashed slots: who comes first has one until the end of the period, as in ATP",
    make,
    by_switch=True,
)
