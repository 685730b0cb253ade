"""Policies that know the future: Belady's optimum, and look-ahead, which knows the next mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, NO_NEXT_ACCESS, Accesses, PolicyLog
from hotline_policies.policy import EVICTIONS, INSTALLS, NEEDS_FUTURE, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.slot_lists import Links, length, make_lists, push, tail, unlink
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Words
from nativekit.reference import as_ref

# Belady's optimum with bypass, all sizes in one pass: an upper bound for every policy.
#
# Of the cached keys and the accessed key, the key whose next access is latest is evicted (Belady, IBM
# Systems Journal 5, 1966; with bypass, an accessed key that would be evicted at once is not installed). The
# cache is represented by the times of its keys' next accesses: a bit per time, a bit per non-zero word of
# those bits, and so on. The scored part begins with the best possible cached keys, whatever came before.
#
# The keys cached by a smaller size are a subset of the keys cached by a larger size, so one level per key
# identifies the sizes that have it.

_BITS = 6  # a word has 2^6 bits
_BIT_MASK = (1 << _BITS) - 1
_NO_TIME = -1  # time of an access that does not come


class NextAccessTimes(NamedTuple):
    words: NDArray[np.uint64]
    """uint64[words, sizes]: the bits of all tiers, concatenated; tier 0 has a bit per time."""
    tiers: Ints  # int64[tiers]: offset of each tier in `words`
    time_counts: Ints  # int64[sizes]: number of times in the set
    sizes: Ints
    idle_keys: Ints
    """int64[sizes]: cached keys without a next access, which leave at once if there is bypass."""
    may_bypass: NDArray[np.bool_]  # bool[1]: whether an accessed key may stay outside
    moves: Ints


def make_belady(log: PolicyLog, sizes: Sequence[int], may_bypass: bool = True) -> Policy:
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
        _serve_belady(times, position - log.training_accesses, next_times, levels)
        position += len(accesses)

    return Policy(serve, moves)


def _first_accesses(log: PolicyLog, limit: int) -> Ints:
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


def make_times(span: int, sizes: Ints, moves: Ints, may_bypass: bool) -> NextAccessTimes:
    counts = [span]  # bits of each tier; the next tier has a bit for each of its words, the last has one word
    while counts[-1] > 1 or len(counts) == 1:
        counts.append((counts[-1] + _BIT_MASK) >> _BITS)
    tiers = np.cumsum([0, *counts[1:]])
    return NextAccessTimes(
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
def _fill(times: NextAccessTimes, first_accesses: Ints) -> None:
    times = as_ref(times)
    for time in first_accesses:
        for size in range(len(times.sizes)):
            if times.time_counts[size] < times.sizes[size]:
                insert_time(times, size, time)


@entry_point
def _serve_belady(times: NextAccessTimes, first_time: int, next_access: Ints, levels: Levels) -> None:
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
                _install_without_bypass(times, size, next_time)
            elif next_time != _NO_TIME:
                _install_or_bypass(times, size, next_time)


@compiled
def _install_or_bypass(times: NextAccessTimes, size: int, next_time: int) -> None:
    if times.time_counts[size] == times.sizes[size]:
        latest = latest_time(times, size)
        if latest < next_time:
            return
        remove_time(times, size, latest)
        times.moves[EVICTIONS, size] += 1
    insert_time(times, size, next_time)
    times.moves[INSTALLS, size] += 1


@compiled
def _install_without_bypass(times: NextAccessTimes, size: int, next_time: int) -> None:
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
def insert_time(times: NextAccessTimes, size: int, time: int) -> None:
    times.time_counts[size] += 1
    for tier in range(len(times.tiers)):
        word = times.tiers[tier] + (time >> _BITS)
        old_word = times.words[word, size]
        times.words[word, size] = old_word | np.uint64(1) << np.uint64(time & _BIT_MASK)
        if old_word:  # its bit in the next tier is set
            return
        time >>= _BITS


@compiled
def remove_time(times: NextAccessTimes, size: int, time: int) -> None:
    times.time_counts[size] -= 1
    for tier in range(len(times.tiers)):
        word = times.tiers[tier] + (time >> _BITS)
        times.words[word, size] &= ~(np.uint64(1) << np.uint64(time & _BIT_MASK))
        if times.words[word, size]:  # its bit in the next tier stays
            return
        time >>= _BITS


@compiled
def latest_time(times: NextAccessTimes, size: int) -> int:
    time = 0
    for tier in range(len(times.tiers) - 1, -1, -1):
        time = time << _BITS | _highest_bit(times.words[times.tiers[tier] + time, size])
    return time


@compiled
def _highest_bit(word: np.uint64) -> int:
    position, step = 0, 32
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
    make_belady,
    one_pass=True,
    warms_up=False,
    is_bound=True,
    why_not_live=NEEDS_FUTURE,
)


# Look-ahead: the next mini-batches are known, as a loader that prefetches knows them (BagPipe, SOSP 2023).
#
# Of the cached keys and the accessed key, the least recently used key without an access in the known mini-
# batches is evicted; if there is none, the key whose next access is latest, as in Belady's optimum.

KNOWN_STEPS = 100
"""Number of known mini-batches after the current mini-batch."""
_ABSENT, _UNKNOWN, _KNOWN = 0, 1, 2
_INDEX, _STEP, _END = 0, 1, 2  # elements of `position`
_ONLY = 0  # index of the only size, and of the only list


class _LookAheadState(NamedTuple):
    times: NextAccessTimes
    links: Links  # int32[2, distinct]: cached keys in state _UNKNOWN; the head is the key accessed last
    lists: Ints
    state_of: NDArray[np.int8]
    """int8[distinct]: whether a key is cached, and whether its next access is known."""
    starts: Ints  # int64[steps + 1]: first access of each mini-batch
    position: Ints
    """int64[3]: the next access to serve, its mini-batch, and the end of the known accesses."""
    moves: Ints


def make_look_ahead(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    distinct, moves = len(log.keys), zero_moves(sizes)
    state = _LookAheadState(
        make_times(len(log.accesses), np.array(sizes, np.int64), moves, may_bypass=True),
        *make_lists(distinct, count=1),
        np.zeros(distinct, np.int8),
        np.array(log.starts),
        np.array([0, -1, 0], np.int64),  # before the first mini-batch
        moves,
    )
    return Policy(partial(_serve_look_ahead, state, KNOWN_STEPS, log.accesses, log.next_access), moves)


@entry_point
def _serve_look_ahead(
    state: _LookAheadState, steps: int, log: Accesses, next_access: Words, accesses: Accesses, levels: Levels
) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        index = state.position[_INDEX]
        if index == state.starts[state.position[_STEP] + 1]:
            state.position[_STEP] += 1
            last_step = min(state.position[_STEP] + steps, len(state.starts) - 2)
            _extend_known_accesses(state, log, state.starts[last_step + 1])
        key, next_time = int64(accesses[i]) & KEY, int64(next_access[index])
        levels[i] = state.state_of[key] == _ABSENT
        if state.state_of[key] != _ABSENT:
            remove_time(state.times, _ONLY, index)
            _install_key(state, key, next_time)
        elif _make_room(state, log, next_time):
            _install_key(state, key, next_time)
            state.moves[INSTALLS, 0] += 1
        state.position[_INDEX] = index + 1


@compiled
def _extend_known_accesses(state: _LookAheadState, log: Accesses, end: int) -> None:
    for index in range(state.position[_END], end):
        key = int64(log[index]) & KEY
        if state.state_of[key] == _UNKNOWN:
            unlink(state.links, state.lists, _ONLY, key)
            state.state_of[key] = _KNOWN
            insert_time(state.times, _ONLY, index)
    state.position[_END] = end


@compiled
def _install_key(state: _LookAheadState, key: int, next_time: int) -> None:
    if next_time < state.position[_END]:
        insert_time(state.times, _ONLY, next_time)
        state.state_of[key] = _KNOWN
    else:
        push(state.links, state.lists, _ONLY, key)
        state.state_of[key] = _UNKNOWN


@compiled
def _make_room(state: _LookAheadState, log: Accesses, next_time: int) -> bool:
    """Make a free slot for a key accessed next at `next_time`; return False if that key is to be bypassed."""
    if state.times.time_counts[_ONLY] + length(state.lists, _ONLY) < state.times.sizes[_ONLY]:
        return True
    if length(state.lists, _ONLY) > 0:
        victim = tail(state.lists, _ONLY)
        unlink(state.links, state.lists, _ONLY, victim)
    else:
        latest = latest_time(state.times, _ONLY)
        if latest < next_time:
            return False
        remove_time(state.times, _ONLY, latest)
        victim = int64(log[latest]) & KEY
    state.state_of[victim] = _ABSENT
    state.moves[EVICTIONS, 0] += 1
    return True


LOOK_AHEAD = PolicySpec(
    "look-ahead",
    "look-ahead",
    "evicts keys that the next 100 mini-batches do not access, then the key that they access last",
    make_look_ahead,
    known_steps=KNOWN_STEPS,
    why_not_live=NEEDS_FUTURE,
)
