"""SIEVE (Zhang et al., NSDI 2024): a queue, and a hand that skips keys accessed since it last passed them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.linked_lists import NONE, Links, length, make_lists, previous, push, tail, unlink
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

_QUEUE = 0
_ABSENT, _CACHED, _VISITED = 0, 1, 2


class _SieveState(NamedTuple):
    links: Links  # int32[2, distinct]: the queue; its head is the key installed last
    lists: Ints
    state_of: NDArray[np.int8]
    """int8[distinct]: _ABSENT, _CACHED, or _VISITED if the key was accessed since the hand last passed it."""
    hand: Ints  # int64[1]: the key at which the next eviction begins its search, or NONE for the tail
    size: Ints
    moves: Ints


def make(log: Log, sizes: Sequence[int]) -> Policy:
    distinct, moves = len(log.keys), zero_moves(sizes)
    state = _SieveState(
        *make_lists(distinct, count=1),
        np.zeros(distinct, np.int8),
        np.full(1, NONE, np.int64),
        np.array(sizes, np.int64),
        moves,
    )
    return Policy(partial(_serve, state), moves)


@entry_point
def _serve(state: _SieveState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = state.state_of[key] == _ABSENT
        if state.state_of[key] != _ABSENT:
            state.state_of[key] = _VISITED
            continue
        if length(state.lists, _QUEUE) == state.size[0]:
            _evict(state)
        push(state.links, state.lists, _QUEUE, key)
        state.state_of[key] = _CACHED
        state.moves[INSTALLS, 0] += 1


@compiled
def _evict(state: _SieveState) -> None:
    key = state.hand[0] if state.hand[0] != NONE else tail(state.lists, _QUEUE)
    while state.state_of[key] == _VISITED:
        state.state_of[key] = _CACHED
        key = previous(state.links, key)
        if key == NONE:
            key = tail(state.lists, _QUEUE)
    state.hand[0] = previous(state.links, key)
    unlink(state.links, state.lists, _QUEUE, key)
    state.state_of[key] = _ABSENT
    state.moves[EVICTIONS, 0] += 1


SIEVE = PolicySpec(
    "sieve",
    "SIEVE",
    "a hand moves over a queue and evicts keys not accessed since its last pass",
    make,
)
