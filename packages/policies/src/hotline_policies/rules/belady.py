"""Belady's optimum with bypass, all sizes in one pass: an upper bound for every policy.

Of the cached keys and the accessed key, the key whose next access is latest is evicted (Belady, IBM Systems
Journal 5, 1966; with bypass, an accessed key that would be evicted at once is not installed). The cache is
represented by the times of its keys' next accesses: a bit per time, a bit per non-zero word of those bits,
and so on. The scored part begins with the best possible cached keys, whatever came before.

The keys cached by a smaller size are a subset of the keys cached by a larger size, so one level per key
identifies the sizes that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, NO_NEXT_ACCESS, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

_BITS = 6  # a word has 2^6 bits
_BIT_MASK = (1 << _BITS) - 1
_NO_TIME = -1  # time of an access that does not come


class Times(NamedTuple):
    words: NDArray[np.uint64]
    """uint64[words, sizes]: the bits of all tiers, concatenated; tier 0 has a bit per time."""
    tiers: Ints  # int64[tiers]: offset of each tier in `words`
    time_counts: Ints  # int64[sizes]: number of times in the set
    sizes: Ints
    idle_keys: Ints
    """int64[sizes]: cached keys without a next access, which leave at once if there is bypass."""
    may_bypass: NDArray[np.bool_]  # bool[1]: whether an accessed key may stay outside
    moves: Ints


def make(log: Log, sizes: Sequence[int], may_bypass: bool = True) -> Policy:
    """Make the optimum with bypass, or the published MIN, which installs every accessed key."""
    moves = zero_moves(sizes)
    times = make_times(
        len(log.accesses) - log.training_accesses, np.array(sizes, np.int64), moves, may_bypass
    )
    next_access = log.next_access
    _fill(times, _first_accesses(log, sizes[-1]))
    position = log.training_accesses

    def serve(accesses: Accesses, levels: Levels) -> None:
        nonlocal position
        next_times = np.array(next_access[position : position + len(accesses)]).astype(np.int64)
        next_times = np.where(next_times == NO_NEXT_ACCESS, _NO_TIME, next_times - log.training_accesses)
        _serve(times, position - log.training_accesses, next_times, levels)
        position += len(accesses)

    return Policy(serve, moves)


def _first_accesses(log: Log, limit: int) -> Ints:
    # A key is pending if the training part accesses it, and the scored part has not accessed it so far.
    is_pending, chunks = log.counts > 0, []
    position = log.training_accesses
    for chunk in log.chunks(log.training_accesses, len(log.accesses)):
        is_first = np.empty(len(chunk), np.bool_)
        _mark_first_accesses(chunk, is_pending, is_first)
        chunks.append(np.flatnonzero(is_first) + position - log.training_accesses)
        position += len(chunk)
        if sum(map(len, chunks)) >= limit:
            break
    return np.concatenate(chunks)[:limit] if chunks else np.zeros(0, np.int64)


def make_times(span: int, sizes: Ints, moves: Ints, may_bypass: bool) -> Times:
    counts = [span]  # bits of each tier; the next tier has a bit for each of its words, the last has one word
    while counts[-1] > 1 or len(counts) == 1:
        counts.append((counts[-1] + _BIT_MASK) >> _BITS)
    tiers = np.cumsum([0, *counts[1:]])
    return Times(
        np.zeros((tiers[-1], len(sizes)), np.uint64),
        tiers[:-1],
        np.zeros_like(sizes),
        sizes,
        np.zeros_like(sizes),
        np.array([may_bypass]),
        moves,
    )


@entry_point
def _mark_first_accesses(
    accesses: Accesses, is_pending: NDArray[np.bool_], is_first: NDArray[np.bool_]
) -> None:
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        is_first[i] = is_pending[key]
        is_pending[key] = False


@entry_point
def _fill(times: Times, first_accesses: Ints) -> None:
    times = as_ref(times)
    for time in first_accesses:
        for size in range(len(times.sizes)):
            if times.time_counts[size] < times.sizes[size]:
                insert_time(times, size, time)


@entry_point
def _serve(times: Times, first_time: int, next_access: Ints, levels: Levels) -> None:
    times = as_ref(times)
    sizes = len(times.sizes)
    for i in range(len(next_access)):
        time, next_time = first_time + i, next_access[i]
        levels[i] = sizes
        for size in range(sizes):
            if times.words[time >> _BITS, size] >> np.uint64(time & _BIT_MASK) & np.uint64(1):
                levels[i] = min(levels[i], size)
                remove_time(times, size, time)
                if next_time != _NO_TIME:
                    insert_time(times, size, next_time)
                elif times.may_bypass[0]:
                    times.moves[EVICTIONS, size] += 1
                else:
                    times.idle_keys[size] += 1
            elif not times.may_bypass[0]:
                _install(times, size, next_time)
            elif next_time != _NO_TIME:
                _install_or_bypass(times, size, next_time)


@compiled
def _install_or_bypass(times: Times, size: int, next_time: int) -> None:
    if times.time_counts[size] == times.sizes[size]:
        latest = latest_time(times, size)
        if latest < next_time:
            return
        remove_time(times, size, latest)
        times.moves[EVICTIONS, size] += 1
    insert_time(times, size, next_time)
    times.moves[INSTALLS, size] += 1


@compiled
def _install(times: Times, size: int, next_time: int) -> None:
    if times.time_counts[size] + times.idle_keys[size] == times.sizes[size]:
        if times.idle_keys[size] > 0:
            times.idle_keys[size] -= 1
        else:
            remove_time(times, size, latest_time(times, size))
        times.moves[EVICTIONS, size] += 1
    if next_time != _NO_TIME:
        insert_time(times, size, next_time)
    else:
        times.idle_keys[size] += 1
    times.moves[INSTALLS, size] += 1


@compiled
def insert_time(times: Times, size: int, time: int) -> None:
    times.time_counts[size] += 1
    for tier in range(len(times.tiers)):
        word = times.tiers[tier] + (time >> _BITS)
        old_word = times.words[word, size]
        times.words[word, size] = old_word | np.uint64(1) << np.uint64(time & _BIT_MASK)
        if old_word:  # its bit in the next tier is set
            return
        time >>= _BITS


@compiled
def remove_time(times: Times, size: int, time: int) -> None:
    times.time_counts[size] -= 1
    for tier in range(len(times.tiers)):
        word = times.tiers[tier] + (time >> _BITS)
        times.words[word, size] &= ~(np.uint64(1) << np.uint64(time & _BIT_MASK))
        if times.words[word, size]:  # its bit in the next tier stays
            return
        time >>= _BITS


@compiled
def latest_time(times: Times, size: int) -> int:
    time = int64(0)
    for tier in range(len(times.tiers) - 1, -1, -1):
        time = time << _BITS | _highest_bit(times.words[times.tiers[tier] + time, size])
    return time


@compiled
def _highest_bit(word: np.uint64) -> int:
    position, step = int64(0), int64(32)
    while step:
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            position += step
        step >>= 1
    return position


BELADY = PolicySpec(
    "belady",
    "optimum",
    "knows the future: evicts the cached or accessed key whose next access is latest (Belady, with bypass)",
    make,
    one_pass=True,
    warms_up=False,
    is_bound=True,
)
