"""Policies of queues, in which keys do not move when they are accessed: FIFO, SIEVE and S3-FIFO."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, PolicyLog
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.slot_lists import (
    NONE,
    Links,
    length,
    make_lists,
    previous,
    push,
    tail,
    unlink,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

# First in, first out: a ring of keys.

_FREE = -1


def make_fifo(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    ring = np.full(size, _FREE, np.int32)
    is_cached = np.zeros(len(log.keys), np.bool_)
    return Policy(
        partial(_serve_fifo, is_cached, ring, moves), moves, held_keys=lambda: np.flatnonzero(is_cached)
    )


@entry_point
def _serve_fifo(
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


FIFO = PolicySpec("fifo", "FIFO", "the key that was installed first leaves", make_fifo)


# SIEVE (Zhang et al., NSDI 2024): a queue, and a hand that skips keys accessed since it last passed them.

_SIEVE_QUEUE = 0
_ABSENT, _CACHED, _VISITED = 0, 1, 2


class _SieveState(NamedTuple):
    links: Links  # int32[2, distinct]: the queue; its head is the key installed last
    lists: Ints
    state_of: NDArray[np.int8]
    """int8[distinct]: _ABSENT, _CACHED, or _VISITED if the key was accessed since the hand last passed it."""
    hand: Ints  # int64[1]: the key at which the next eviction begins its search, or NONE for the tail
    size: Ints
    moves: Ints


def make_sieve(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    distinct, moves = len(log.keys), zero_moves(sizes)
    state = _SieveState(
        *make_lists(distinct, count=1),
        np.zeros(distinct, np.int8),
        np.full(1, NONE, np.int64),
        np.array(sizes, np.int64),
        moves,
    )
    return Policy(
        partial(_serve_sieve, state), moves, held_keys=lambda: np.flatnonzero(state.state_of != _ABSENT)
    )


@entry_point
def _serve_sieve(state: _SieveState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = state.state_of[key] == _ABSENT
        if state.state_of[key] != _ABSENT:
            state.state_of[key] = _VISITED
            continue
        if length(state.lists, _SIEVE_QUEUE) == state.size[0]:
            _evict_by_hand(state)
        push(state.links, state.lists, _SIEVE_QUEUE, key)
        state.state_of[key] = _CACHED
        state.moves[INSTALLS, 0] += 1


@compiled
def _evict_by_hand(state: _SieveState) -> None:
    key = state.hand[0] if state.hand[0] != NONE else tail(state.lists, _SIEVE_QUEUE)
    while state.state_of[key] == _VISITED:
        state.state_of[key] = _CACHED
        key = previous(state.links, key)
        if key == NONE:
            key = tail(state.lists, _SIEVE_QUEUE)
    state.hand[0] = previous(state.links, key)
    unlink(state.links, state.lists, _SIEVE_QUEUE, key)
    state.state_of[key] = _ABSENT
    state.moves[EVICTIONS, 0] += 1


SIEVE = PolicySpec(
    "sieve",
    "SIEVE",
    "a hand moves over a queue and evicts keys not accessed since its last pass",
    make_sieve,
)


# S3-FIFO (Yang et al., SOSP 2023): a small queue for new keys, a main queue, and a ghost of evicted keys.
#
# As in libCacheSim, the small queue has a tenth of the slots, the ghost at most 0.9 keys per slot of the
# cache, a key moves to the main queue if it had two accesses in the small queue, and the main queue is
# CLOCK with two-bit counters. Until the first eviction new keys go to the main queue once the small queue
# is full.

SMALL, MAIN, GHOST = 0, 1, 2
_IN_NO_QUEUE = -1
SMALL_SHARE, GHOST_SHARE = 0.1, 0.9
MIN_ACCESSES_TO_MAIN = 2  # accesses in the small queue for which a key moves to the main queue
_MAX_COUNT = 3  # of a counter of two bits
_HAS_EVICTED = 3  # index in `capacities`


class _S3State(NamedTuple):
    links: Links  # int32[2, distinct]: the queues; a head is the key that came last
    lists: Ints
    queue_of: NDArray[np.int8]  # int8[distinct]: SMALL, MAIN, GHOST or -1
    count_of: NDArray[np.int8]  # int8[distinct]: accesses of a key in its queue, up to 3
    capacities: Ints  # int64[4]: slots of the queues, and whether a key has been evicted
    moves: Ints


def queue_capacities(size: int) -> tuple[int, int, int]:
    """Return the slots of the small queue, the main queue and the ghost."""
    small = max(1, int(SMALL_SHARE * size))
    return small, size - small, int(GHOST_SHARE * size)


def make_s3_fifo(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    (size,), distinct, moves = sizes, len(log.keys), zero_moves(sizes)
    state = _S3State(
        *make_lists(distinct, count=3),
        np.full(distinct, _IN_NO_QUEUE, np.int8),
        np.zeros(distinct, np.int8),
        np.array([*queue_capacities(size), 0], np.int64),
        moves,
    )
    return Policy(
        partial(_serve_s3_fifo, state),
        moves,
        held_keys=lambda: np.flatnonzero((state.queue_of == SMALL) | (state.queue_of == MAIN)),
    )


@entry_point
def _serve_s3_fifo(state: _S3State, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        queue = int64(state.queue_of[key])
        is_hit = queue in (SMALL, MAIN)
        levels[i] = not is_hit
        if is_hit:
            state.count_of[key] = min(state.count_of[key] + 1, _MAX_COUNT)
        else:
            _admit_to_queue(state, key, queue == GHOST)


@compiled
def _admit_to_queue(state: _S3State, key: int, was_ghost: bool) -> None:
    small, main, _, has_evicted = state.capacities
    if was_ghost:
        unlink(state.links, state.lists, GHOST, key)
        state.queue_of[key] = _IN_NO_QUEUE
    while length(state.lists, SMALL) + length(state.lists, MAIN) == small + main:
        state.capacities[_HAS_EVICTED] = has_evicted = 1
        if length(state.lists, MAIN) > main or length(state.lists, SMALL) == 0:
            _evict_main(state)
        else:
            _evict_small(state)
    fills_main = not has_evicted and length(state.lists, SMALL) >= small
    _put_into_queue(state, MAIN if was_ghost or fills_main else SMALL, key)
    state.moves[INSTALLS, 0] += 1


@compiled
def _put_into_queue(state: _S3State, queue: int, key: int) -> None:
    push(state.links, state.lists, queue, key)
    state.queue_of[key] = queue
    state.count_of[key] = 0


@compiled
def _evict_small(state: _S3State) -> None:
    """Evict a key from the small queue, or none if all keys of the small queue move to the main queue."""
    while length(state.lists, SMALL) > 0:
        key = tail(state.lists, SMALL)
        unlink(state.links, state.lists, SMALL, key)
        if state.count_of[key] >= MIN_ACCESSES_TO_MAIN:
            _put_into_queue(state, MAIN, key)
            continue
        state.queue_of[key] = _IN_NO_QUEUE
        state.moves[EVICTIONS, 0] += 1
        _add_ghost(state, key)
        return


@compiled
def _evict_main(state: _S3State) -> None:
    key = tail(state.lists, MAIN)
    while state.count_of[key] > 0:
        count = state.count_of[key] - 1
        unlink(state.links, state.lists, MAIN, key)
        _put_into_queue(state, MAIN, key)
        state.count_of[key] = count
        key = tail(state.lists, MAIN)
    unlink(state.links, state.lists, MAIN, key)
    state.queue_of[key] = _IN_NO_QUEUE
    state.moves[EVICTIONS, 0] += 1


@compiled
def _add_ghost(state: _S3State, key: int) -> None:
    if state.capacities[GHOST] == 0:
        return
    if length(state.lists, GHOST) == state.capacities[GHOST]:
        oldest = tail(state.lists, GHOST)
        unlink(state.links, state.lists, GHOST, oldest)
        state.queue_of[oldest] = _IN_NO_QUEUE
    _put_into_queue(state, GHOST, key)


S3_FIFO = PolicySpec(
    "s3-fifo",
    "S3-FIFO",
    "a small queue for new keys, a main one for those accessed again, and a ghost",
    make_s3_fifo,
)
