"""Hashes, a sketch of recent accesses, and hashed slots in a switch: first come first served, and P4LRU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, PolicyLog
from hotline_policies.policy import (
    EVICTIONS,
    INSTALLS,
    MOVED_BY_SWITCH,
    Levels,
    Policy,
    PolicySpec,
    zero_moves,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets

# Hashes, and a count-min sketch of recent accesses whose counters are halved regularly.
#
# (Cormode and Muthukrishnan, J. Algorithms 55, 2005; the halving is TinyLFU's: Einziger, Friedman and
# Manes, ACM ToS 13, 2017.)

HASH_BITS = 31
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _HASH_SHIFT, _ONE = (
    np.uint64(bits) for bits in (30, 27, 31, 64 - HASH_BITS, 1)
)
SKETCH_ROWS = 4
_COUNTERS_PER_KEY = 4
ACCESSES_PER_KEY = 10
"""Accesses between two halvings for each key of the policy's size."""
_SINCE_HALVING, _HALVING_PERIOD = 0, 1  # elements of `progress`
MAX_COUNT = 15
"""Largest value of a counter, which has four bits."""


class Sketch(NamedTuple):
    counters: Octets  # uint8[SKETCH_ROWS, width]: counters, up to MAX_COUNT
    progress: Ints  # int64[2]: accesses since the last halving, and accesses between two halvings


def make_sketch(size: int) -> Sketch:
    counters = np.zeros((SKETCH_ROWS, _COUNTERS_PER_KEY * size), np.uint8)
    return Sketch(counters, np.array([0, ACCESSES_PER_KEY * size], np.int64))


@compiled
def hash_key(key: int, seed: int) -> int:
    """Return the topmost 31 bits of SplitMix64 (Steele et al., OOPSLA 2014)."""
    x = np.uint64(key) + (np.uint64(seed) + _ONE) * _GAMMA
    x = (x ^ (x >> _SHIFT_30)) * _FIRST_FACTOR
    x = (x ^ (x >> _SHIFT_27)) * _SECOND_FACTOR
    return int64((x ^ (x >> _SHIFT_31)) >> _HASH_SHIFT)


@compiled
def to_bucket(key_hash: int, buckets: int) -> int:
    return (key_hash * buckets) >> HASH_BITS


@compiled
def count_access(state: Sketch, key: int) -> None:
    counters = state.counters
    for row in range(SKETCH_ROWS):
        place = to_bucket(hash_key(key, row), counters.shape[1])
        counters[row, place] += counters[row, place] < MAX_COUNT
    state.progress[_SINCE_HALVING] += 1
    if state.progress[_SINCE_HALVING] == state.progress[_HALVING_PERIOD]:
        state.progress[_SINCE_HALVING] = 0
        for row in range(SKETCH_ROWS):
            for place in range(counters.shape[1]):
                counters[row, place] >>= 1


@compiled
def estimate(state: Sketch, key: int) -> int:
    """Return an estimate of a key's recent accesses, at most MAX_COUNT; hash collisions only raise it."""
    lowest_count = MAX_COUNT
    for row in range(SKETCH_ROWS):
        lowest_count = min(
            lowest_count, int64(state.counters[row, to_bucket(hash_key(key, row), state.counters.shape[1])])
        )
    return lowest_count


# Hashed slots in a switch's registers: first come first served, and LRU buckets.
#
# *First come* is cleared each period, as ATP's aggregators are (Lao et al., NSDI 2021). P4LRU3 has buckets
# of three keys, which fit a switch pipeline (Zhao et al., SIGCOMM 2023).

PLACES = 3  # keys of a bucket
_P4_LRU_SEED, _FIRST_COME_SEED = 16, 17  # of the hashes
_FREE = -1


def make_first_come(log: PolicyLog, sizes: Sequence[int]) -> Policy:
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
    why_not_live=MOVED_BY_SWITCH,
)


def make_p4_lru(log: PolicyLog, sizes: Sequence[int]) -> Policy:
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
        place = 0
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
    why_not_live=MOVED_BY_SWITCH,
)
