"""ARC (Megiddo and Modha, FAST 2003): LRU of keys accessed once, and of other keys, balanced by ghosts."""

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

T1, T2, B1, B2 = 0, 1, 2, 3
"""The paper's lists: cached keys accessed once, cached keys accessed more often, and the ghosts of both."""
_ABSENT = -1
_NOT_IN_B2 = False


class _ArcState(NamedTuple):
    links: Links  # int32[2, distinct]: the lists; a head is the key accessed last
    lists: Ints
    list_of: NDArray[np.int8]  # int8[distinct]: T1, T2, B1, B2 or -1
    size: Ints  # int64[1]: slots of T1 and T2 together
    target: NDArray[np.float64]  # float64[1]: target size of T1
    moves: Ints


def make(log: Log, sizes: Sequence[int]) -> Policy:
    (size,), distinct, moves = sizes, len(log.keys), zero_moves(sizes)
    state = _ArcState(
        *make_lists(distinct, count=4),
        np.full(distinct, _ABSENT, np.int8),
        np.array([size], np.int64),
        np.zeros(1),
        moves,
    )
    return Policy(partial(_serve, state), moves)


@entry_point
def _serve(state: _ArcState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        list_index = int64(state.list_of[key])
        is_hit = list_index in (T1, T2)
        levels[i] = not is_hit
        if list_index == _ABSENT:
            _admit(state, key)
            continue
        if not is_hit:
            _adapt(state, list_index)
            _replace(state, list_index == B2)
            state.moves[INSTALLS, 0] += 1
        _move(state, key, T2)


@compiled
def _move(state: _ArcState, key: int, list_index: int) -> None:
    if state.list_of[key] != _ABSENT:
        unlink(state.links, state.lists, int64(state.list_of[key]), key)
    push(state.links, state.lists, list_index, key)
    state.list_of[key] = list_index


@compiled
def _drop(state: _ArcState, list_index: int) -> None:
    key = tail(state.lists, list_index)
    unlink(state.links, state.lists, list_index, key)
    state.list_of[key] = _ABSENT


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
        _move(state, tail(state.lists, T1), B1)
    else:
        _move(state, tail(state.lists, T2), B2)
    state.moves[EVICTIONS, 0] += 1


@compiled
def _admit(state: _ArcState, key: int) -> None:
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
    _move(state, key, T1)
    state.moves[INSTALLS, 0] += 1


ARC = PolicySpec("arc", "ARC", "LRU of keys accessed once and LRU of others, balanced by evicted keys", make)
