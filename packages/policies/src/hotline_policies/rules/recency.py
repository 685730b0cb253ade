"""Policies by recency: LRU, ARC and LIRS."""

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
    head,
    length,
    make_lists,
    previous,
    push,
    tail,
    unlink,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets
from nativekit.reference import as_ref

# Least recently used, all sizes in one pass.
#
# LRU is a stack algorithm (Mattson et al., IBM Systems Journal 9, 1970): a smaller cache holds the first
# keys of a larger one. Each size has a mark at its last key (Kim, Hill and Wood, SIGMETRICS 1991), so
# distances are not counted: a key that moves to the front pushes one key over each mark before it, out of
# that mark's size.

_LRU_STACK = 0


class _LruStack(NamedTuple):
    sizes: Ints
    links: Links  # the list's head is the most recently used key
    lists: Ints
    level: Octets
    """uint8[distinct]: index of the smallest size that has the key; the number of sizes if none has it."""
    marks: Ints  # int64[sizes]: last key of each size, or NONE while the size is not full
    moves: Ints


def make_lru(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    distinct, moves = len(log.keys), zero_moves(sizes)
    stack = _LruStack(
        np.array(sizes, np.int64),
        *make_lists(distinct, count=1),
        np.full(distinct, len(sizes), np.uint8),
        np.full(len(sizes), NONE, np.int64),
        moves,
    )
    return Policy(partial(_serve_lru, stack), moves, held_keys=lambda: np.flatnonzero(stack.level == 0))


@entry_point
def _serve_lru(stack: _LruStack, accesses: Accesses, levels: Levels) -> None:
    stack = as_ref(stack)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        level = int64(stack.level[key])
        levels[i] = level
        if key != head(stack.lists, _LRU_STACK):
            _move_to_front(stack, key, level)


@compiled
def _move_to_front(stack: _LruStack, key: int, level: int) -> None:
    sizes, links, lists, marks = stack.sizes, stack.links, stack.lists, stack.marks
    absent_level = len(sizes)
    if level < absent_level:
        if marks[level] == key:
            marks[level] = previous(links, key)
        unlink(links, lists, _LRU_STACK, key)
    push(links, lists, _LRU_STACK, key)
    stack.level[key] = 0
    for index in range(level):
        stack.moves[INSTALLS, index] += 1
        last_key = marks[index]
        if last_key != NONE:
            stack.level[last_key] = index + 1
            marks[index] = previous(links, last_key)
            stack.moves[EVICTIONS, index] += 1
        elif length(lists, _LRU_STACK) == sizes[index]:
            marks[index] = tail(lists, _LRU_STACK)
    if length(lists, _LRU_STACK) > sizes[absent_level - 1]:
        unlink(links, lists, _LRU_STACK, tail(lists, _LRU_STACK))


LRU = PolicySpec("lru", "LRU", "the least recently used key leaves", make_lru, one_pass=True)


# ARC (Megiddo and Modha, FAST 2003): LRU of keys accessed once, and of other keys, balanced by ghosts.

T1, T2, B1, B2 = 0, 1, 2, 3
"""The paper's lists: cached keys accessed once, cached keys accessed more often, and the ghosts of both."""
_IN_NO_LIST = -1
_NOT_IN_B2 = False


class _ArcState(NamedTuple):
    links: Links  # int32[2, distinct]: the lists; a head is the key accessed last
    lists: Ints
    list_of: NDArray[np.int8]  # int8[distinct]: T1, T2, B1, B2 or -1
    size: Ints  # int64[1]: slots of T1 and T2 together
    target: NDArray[np.float64]  # float64[1]: target size of T1
    moves: Ints


def make_arc(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    (size,), distinct, moves = sizes, len(log.keys), zero_moves(sizes)
    state = _ArcState(
        *make_lists(distinct, count=4),
        np.full(distinct, _IN_NO_LIST, np.int8),
        np.array([size], np.int64),
        np.zeros(1),
        moves,
    )
    return Policy(
        partial(_serve_arc, state),
        moves,
        held_keys=lambda: np.flatnonzero((state.list_of == T1) | (state.list_of == T2)),
    )


@entry_point
def _serve_arc(state: _ArcState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        list_index = int64(state.list_of[key])
        is_hit = list_index in (T1, T2)
        levels[i] = not is_hit
        if list_index == _IN_NO_LIST:
            _admit_to_t1(state, key)
            continue
        if not is_hit:
            _adapt(state, list_index)
            _replace(state, list_index == B2)
            state.moves[INSTALLS, 0] += 1
        _move_to_list(state, key, T2)


@compiled
def _move_to_list(state: _ArcState, key: int, list_index: int) -> None:
    if state.list_of[key] != _IN_NO_LIST:
        unlink(state.links, state.lists, int64(state.list_of[key]), key)
    push(state.links, state.lists, list_index, key)
    state.list_of[key] = list_index


@compiled
def _drop(state: _ArcState, list_index: int) -> None:
    key = tail(state.lists, list_index)
    unlink(state.links, state.lists, list_index, key)
    state.list_of[key] = _IN_NO_LIST


@compiled
def _adapt(state: _ArcState, ghost: int) -> None:
    b1, b2 = length(state.lists, B1), length(state.lists, B2)
    if ghost == B1:
        state.target[0] = min(state.target[0] + max(b2 / b1, 1.0), float(state.size[0]))
    else:
        state.target[0] = max(state.target[0] - max(b1 / b2, 1.0), 0.0)


@compiled
def _replace(state: _ArcState, is_in_b2: bool) -> None:
    t1, target = length(state.lists, T1), state.target[0]
    if t1 > 0 and (t1 > target or (is_in_b2 and t1 == target)):
        _move_to_list(state, tail(state.lists, T1), B1)
    else:
        _move_to_list(state, tail(state.lists, T2), B2)
    state.moves[EVICTIONS, 0] += 1


@compiled
def _admit_to_t1(state: _ArcState, key: int) -> None:
    size = state.size[0]
    cached = length(state.lists, T1) + length(state.lists, T2)
    if length(state.lists, T1) + length(state.lists, B1) == size:
        if length(state.lists, T1) < size:
            _drop(state, B1)
            _replace(state, _NOT_IN_B2)
        else:
            _drop(state, T1)  # B1 is empty
            state.moves[EVICTIONS, 0] += 1
    elif cached + length(state.lists, B1) + length(state.lists, B2) >= size:
        if cached + length(state.lists, B1) + length(state.lists, B2) == 2 * size:
            _drop(state, B2)
        if cached == size:
            _replace(state, _NOT_IN_B2)
    _move_to_list(state, key, T1)
    state.moves[INSTALLS, 0] += 1


ARC = PolicySpec(
    "arc", "ARC", "LRU of keys accessed once and LRU of others, balanced by evicted keys", make_arc
)


# LIRS (Jiang and Zhang, SIGMETRICS 2002): keys with small reuse distances stay.
#
# Of the cache, 1 % is for keys with large reuse distances (HIR); the rest is for other keys (LIR). The
# stack has at most twice as many keys as the cache, as in libCacheSim; the paper leaves its limit open.

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
    has_demotions: NDArray[np.bool_]  # bool[1]: `has_demotions` of `make_lirs`
    moves: Ints


def make_lirs(log: PolicyLog, sizes: Sequence[int], has_demotions: bool = False) -> Policy:
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
    return Policy(
        partial(_serve_lirs, state),
        moves,
        held_keys=lambda: np.flatnonzero((state.list_of == QUEUE) | np.isin(state.status, (_LIR, _HIR))),
    )


@entry_point
def _serve_lirs(state: _LirsState, accesses: Accesses, levels: Levels) -> None:
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
        _move_in_queue(state, key, _NO_LIST)
        _become_lir(state, key)
    elif is_queued:
        _move_in_queue(state, key, QUEUE)
        if state.has_demotions[0]:
            _demote(state)
        state.status[key] = _HIR
    elif state.lir_count[_COUNT] < state.lir_count[_LIMIT]:
        _become_lir(state, key)
    else:
        _evict(state)
        _move_in_queue(state, key, QUEUE)
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
    _move_in_queue(state, key, QUEUE)
    _prune(state)


@compiled
def _evict(state: _LirsState) -> None:
    """Evict the last key of the queue if the queue is full."""
    if length(state.lists, QUEUE) < state.size[_QUEUE_SLOTS]:
        return
    key = tail(state.lists, QUEUE) - len(state.status)
    is_in_stack = state.status[key] != _OUTSIDE
    _move_in_queue(state, key, GHOSTS if is_in_stack else _NO_LIST)
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
        _move_in_queue(state, key, _NO_LIST)
    state.status[key] = _OUTSIDE


@compiled
def _move_in_queue(state: _LirsState, key: int, list_index: int) -> None:
    """Move a key to the head of the queue or of the ghosts; `_NO_LIST` only removes it from its list."""
    slot = len(state.status) + key
    if state.list_of[key] != _NO_LIST:
        unlink(state.links, state.lists, int64(state.list_of[key]), slot)
    if list_index != _NO_LIST:
        push(state.links, state.lists, list_index, slot)
    state.list_of[key] = list_index


LIRS = PolicySpec(
    "lirs", "LIRS", "keys whose last two accesses were close stay; 1 % is for others", make_lirs
)
