"""Hashed slots in a switch's registers: first come first served, and LRU buckets.

*First come* is cleared each period, as ATP's aggregators are (Lao et al., NSDI 2021). P4LRU3 has buckets of
three keys, which fit a switch pipeline (Zhao et al., SIGCOMM 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.sketch import hash_key, to_bucket
from nativekit.compile import int64
from nativekit.records import Ints

PLACES = 3  # keys of a bucket
_P4_LRU_SEED, _FIRST_COME_SEED = 16, 17  # of the hashes
_FREE = -1


def make_first_come(log: Log, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    slots = np.full(size, _FREE, np.int32)

    def end_period() -> None:
        moves[EVICTIONS, 0] += np.count_nonzero(slots != _FREE)
        slots[:] = _FREE

    return Policy(partial(_serve_first_come, slots, moves), moves, end_period)


@entry_point
def _serve_first_come(slots: NDArray[np.int32], moves: Ints, accesses: Accesses, levels: Levels) -> None:
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = to_bucket(hash_key(key, _FIRST_COME_SEED), len(slots))
        levels[i] = slots[slot] != key
        if slots[slot] == _FREE:
            slots[slot] = key
            moves[INSTALLS, 0] += 1


FIRST_COME = PolicySpec(
    "first-come",
    "first come",
    "hashed slots: the first key of a period has its slot until the end of the period, as in ATP",
    make_first_come,
    by_switch=True,
)


def make_p4_lru(log: Log, sizes: Sequence[int]) -> Policy:
    """Make as many whole buckets as fit into the size, and at least one."""
    (size,), moves = sizes, zero_moves(sizes)
    buckets = np.full((max(size // PLACES, 1), min(PLACES, size)), _FREE, np.int32)
    return Policy(partial(_serve_p4_lru, buckets, moves), moves)


@entry_point
def _serve_p4_lru(buckets: NDArray[np.int32], moves: Ints, accesses: Accesses, levels: Levels) -> None:
    bucket_count, places = buckets.shape
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        bucket = buckets[to_bucket(hash_key(key, _P4_LRU_SEED), bucket_count)]
        place = int64(0)
        while place < places and bucket[place] != key:
            place += 1
        levels[i] = place == places
        if place == places:
            place = places - 1
            moves[INSTALLS, 0] += 1
            moves[EVICTIONS, 0] += bucket[place] != _FREE
        # The keys accessed more recently move one place on, and the key moves to the front.
        while place > 0:
            bucket[place] = bucket[place - 1]
            place -= 1
        bucket[0] = key


P4_LRU = PolicySpec(
    "p4-lru",
    "P4LRU",
    "hashed buckets of three keys, each an LRU, in a switch's registers",
    make_p4_lru,
    by_switch=True,
)
