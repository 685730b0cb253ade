"""Hashed slots, first come first served, cleared each period: ATP's aggregators (Lao et al., NSDI 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import int64
from nativekit.records import Ints
from studies.compile import entry_point
from studies.policies.log import KEY, Accesses, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from studies.policies.rules.sketch import hash_key, to_bucket

_FREE = -1
_SEED = 17  # of the hash


def make(log: Log, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    slots = np.full(size, _FREE, np.int32)

    def end_period() -> None:
        moves[EVICTIONS, 0] += np.count_nonzero(slots != _FREE)
        slots[:] = _FREE

    return Policy(partial(_serve, slots, moves), moves, end_period)


@entry_point
def _serve(slots: NDArray[np.int32], moves: Ints, accesses: Accesses, levels: Levels) -> None:
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = to_bucket(hash_key(key, _SEED), len(slots))
        levels[i] = slots[slot] != key
        if slots[slot] == _FREE:
            slots[slot] = key
            moves[INSTALLS, 0] += 1


FIRST_COME = PolicySpec(
    "first-come",
    "first come",
    "hashed slots: the first key of a period has its slot until the end of the period, as in ATP",
    make,
    by_switch=True,
)
