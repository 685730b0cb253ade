"""LIRS (Jiang and Zhang, SIGMETRICS 2002): keys with small reuse distances stay.

Of the cache, 1 % is for keys with large reuse distances (HIR); the rest is for other keys (LIR). The stack
has at most twice as many keys as the cache, as in libCacheSim; the paper leaves its limit open.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.linked_lists import Links, length, make_lists, push, tail, unlink
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

STACK, QUEUE, GHOSTS = 0, 1, 2
"""The paper's S and Q, and the keys of S that are not cached, the last evicted first."""
_HIR_SHARE, _STACK_FACTOR = 0.01, 2  # share of the cache, and stack keys per slot of the cache
_COUNT, _LIMIT = 0, 1  # elements of `lir_count`
_QUEUE_SLOTS, _CACHE_SLOTS = 0, 1  # elements of `size`
_OUTSIDE, _LIR, _HIR, _GHOST = 0, 1, 2, 3
_NO_LIST = -1


class _LirsState(NamedTuple):
    links: Links
    """int32[2, 2 * distinct]: key k is k in the stack, and distinct + k in the queue or among the ghosts."""
    lists: Ints
    status: NDArray[np.int8]  # int8[distinct]: _LIR, _HIR or _GHOST in the stack, else _OUTSIDE
    list_of: NDArray[np.int8]  # int8[distinct]: QUEUE, GHOSTS or -1
    lir_count: Ints  # int64[2]: number of LIR keys, and its limit
    size: Ints  # int64[2]: slots of the queue, and of the cache
    has_demotions: NDArray[np.bool_]  # bool[1]: `has_demotions` of `make`
    moves: Ints


def make(log: Log, sizes: Sequence[int], has_demotions: bool = False) -> Policy:
    """Make LIRS; with `has_demotions` a hit of a key outside the stack demotes an LIR key (libCacheSim)."""
    (size,), distinct, moves = sizes, len(log.keys), zero_moves(sizes)
    queue = max(1, int(_HIR_SHARE * size))
    state = _LirsState(
        *make_lists(2 * distinct, count=3),
        np.zeros(distinct, np.int8),
        np.full(distinct, _NO_LIST, np.int8),
        np.array([0, size - queue], np.int64),
        np.array([queue, size], np.int64),
        np.array([has_demotions]),
        moves,
    )
    return Policy(partial(_serve, state), moves)


@entry_point
def _serve(state: _LirsState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    max_stack_keys = _STACK_FACTOR * state.size[_CACHE_SLOTS]
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not _access(state, key)  # 0 for a hit
        while length(state.lists, STACK) > max_stack_keys and length(state.lists, GHOSTS) > 0:
            _remove_from_stack(state, tail(state.lists, GHOSTS) - len(state.status))


@compiled
def _access(state: _LirsState, key: int) -> bool:
    status, is_queued = int64(state.status[key]), state.list_of[key] == QUEUE
    is_hit = is_queued or status in (_LIR, _HIR)
    state.moves[INSTALLS, 0] += not is_hit
    if status != _OUTSIDE:
        unlink(state.links, state.lists, STACK, key)
    push(state.links, state.lists, STACK, key)
    if status == _LIR:
        _prune(state)
    elif status in (_HIR, _GHOST) and state.lir_count[_LIMIT] > 0:
        _move(state, key, _NO_LIST)
        _become_lir(state, key)
    elif is_queued:
        _move(state, key, QUEUE)
        if state.has_demotions[0]:
            _demote(state)
        state.status[key] = _HIR
    elif state.lir_count[_COUNT] < state.lir_count[_LIMIT]:
        _become_lir(state, key)
    else:
        _evict(state)
        _move(state, key, QUEUE)
        state.status[key] = _HIR
    return is_hit


@compiled
def _become_lir(state: _LirsState, key: int) -> None:
    _demote(state)
    state.status[key] = _LIR
    state.lir_count[_COUNT] += 1


@compiled
def _demote(state: _LirsState) -> None:
    """Move the LIR key at the bottom of the stack to the queue unless there is room for another LIR key."""
    if state.lir_count[_COUNT] < state.lir_count[_LIMIT] or state.lir_count[_LIMIT] == 0:
        return
    key = tail(state.lists, STACK)
    _remove_from_stack(state, key)
    state.lir_count[_COUNT] -= 1
    _evict(state)
    _move(state, key, QUEUE)
    _prune(state)


@compiled
def _evict(state: _LirsState) -> None:
    """Evict the last key of the queue if the queue is full."""
    if length(state.lists, QUEUE) < state.size[_QUEUE_SLOTS]:
        return
    key = tail(state.lists, QUEUE) - len(state.status)
    is_in_stack = state.status[key] != _OUTSIDE
    _move(state, key, GHOSTS if is_in_stack else _NO_LIST)
    if is_in_stack:
        state.status[key] = _GHOST
    state.moves[EVICTIONS, 0] += 1


@compiled
def _prune(state: _LirsState) -> None:
    """Remove keys from the bottom of the stack until an LIR key is there."""
    while length(state.lists, STACK) > 1:
        key = tail(state.lists, STACK)
        if state.status[key] == _LIR:
            return
        _remove_from_stack(state, key)


@compiled
def _remove_from_stack(state: _LirsState, key: int) -> None:
    unlink(state.links, state.lists, STACK, key)
    if state.status[key] == _GHOST:
        _move(state, key, _NO_LIST)
    state.status[key] = _OUTSIDE


@compiled
def _move(state: _LirsState, key: int, list_index: int) -> None:
    """Move a key to the head of the queue or of the ghosts; `_NO_LIST` only removes it from its list."""
    slot = len(state.status) + key
    if state.list_of[key] != _NO_LIST:
        unlink(state.links, state.lists, int64(state.list_of[key]), slot)
    if list_index != _NO_LIST:
        push(state.links, state.lists, list_index, slot)
    state.list_of[key] = list_index


LIRS = PolicySpec("lirs", "LIRS", "keys whose last two accesses were close stay; 1 % is for others", make)
