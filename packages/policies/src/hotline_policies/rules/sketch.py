"""Hashes, and a count-min sketch of recent accesses whose counters are halved regularly.

(Cormode and Muthukrishnan, J. Algorithms 55, 2005; the halving is TinyLFU's: Einziger, Friedman and Manes,
ACM ToS 13, 2017.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets

HASH_BITS = 31
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _HASH_SHIFT, _ONE = (
    np.uint64(bits) for bits in (30, 27, 31, 64 - HASH_BITS, 1)
)
ROWS = 4
_COUNTERS_PER_KEY = 4
ACCESSES_PER_KEY = 10
"""Accesses between two halvings for each key of the policy's size."""
_SINCE_HALVING, _HALVING_PERIOD = 0, 1  # elements of `progress`
MAX_COUNT = 15
"""Largest value of a counter, which has four bits."""


class Sketch(NamedTuple):
    counters: Octets  # uint8[ROWS, width]: counters, up to MAX_COUNT
    progress: Ints  # int64[2]: accesses since the last halving, and accesses between two halvings


def make_sketch(size: int) -> Sketch:
    counters = np.zeros((ROWS, _COUNTERS_PER_KEY * size), np.uint8)
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
    for row in range(ROWS):
        place = to_bucket(hash_key(key, row), counters.shape[1])
        counters[row, place] += counters[row, place] < MAX_COUNT
    state.progress[_SINCE_HALVING] += 1
    if state.progress[_SINCE_HALVING] == state.progress[_HALVING_PERIOD]:
        state.progress[_SINCE_HALVING] = 0
        for row in range(ROWS):
            for place in range(counters.shape[1]):
                counters[row, place] >>= 1


@compiled
def estimate(state: Sketch, key: int) -> int:
    """Return an estimate of a key's recent accesses, at most MAX_COUNT; hash collisions only raise it."""
    lowest_count = int64(MAX_COUNT)
    for row in range(ROWS):
        lowest_count = min(
            lowest_count, int64(state.counters[row, to_bucket(hash_key(key, row), state.counters.shape[1])])
        )
    return lowest_count
