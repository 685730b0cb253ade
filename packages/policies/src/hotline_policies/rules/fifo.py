"""First in, first out: a ring of keys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from nativekit.compile import int64
from nativekit.records import Ints

_FREE = -1


def make(log: Log, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    ring = np.full(size, _FREE, np.int32)
    return Policy(partial(_serve, np.zeros(len(log.keys), np.bool_), ring, moves), moves)


@entry_point
def _serve(
    is_cached: NDArray[np.bool_], ring: NDArray[np.int32], moves: Ints, accesses: Accesses, levels: Levels
) -> None:
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not is_cached[key]  # 0 for a hit
        if is_cached[key]:
            continue
        # Places are filled in turn, so the next place has the key that was installed first.
        place = moves[INSTALLS, 0] % len(ring)
        if ring[place] != _FREE:
            is_cached[ring[place]] = False
            moves[EVICTIONS, 0] += 1
        ring[place] = key
        is_cached[key] = True
        moves[INSTALLS, 0] += 1


FIFO = PolicySpec("fifo", "FIFO", "the key that was installed first leaves", make)
