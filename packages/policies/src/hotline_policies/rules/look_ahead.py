"""Look-ahead: the next mini-batches are known, as a loader that prefetches knows them (BagPipe, SOSP 2023).

Of the cached keys and the accessed key, the least recently used key without an access in the known
mini-batches is evicted; if there is none, the key whose next access is latest, as in Belady's optimum.
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
from hotline_policies.rules.belady import Times, insert_time, latest_time, make_times, remove_time
from hotline_policies.rules.linked_lists import Links, length, make_lists, push, tail, unlink
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Words
from nativekit.reference import as_ref

STEPS = 100
"""Number of known mini-batches after the current mini-batch."""
_ABSENT, _UNKNOWN, _KNOWN = 0, 1, 2
_INDEX, _STEP, _END = 0, 1, 2  # elements of `position`
_ONLY = 0  # index of the only size, and of the only list


class _State(NamedTuple):
    times: Times
    links: Links  # int32[2, distinct]: cached keys in state _UNKNOWN; the head is the key accessed last
    lists: Ints
    state_of: NDArray[np.int8]
    """int8[distinct]: whether a key is cached, and whether its next access is known."""
    starts: Ints  # int64[steps + 1]: first access of each mini-batch
    position: Ints
    """int64[3]: the next access to serve, its mini-batch, and the end of the known accesses."""
    moves: Ints


def make(log: Log, sizes: Sequence[int]) -> Policy:
    distinct, moves = len(log.keys), zero_moves(sizes)
    state = _State(
        make_times(len(log.accesses), np.array(sizes, np.int64), moves, may_bypass=True),
        *make_lists(distinct, count=1),
        np.zeros(distinct, np.int8),
        np.array(log.starts),
        np.array([0, -1, 0], np.int64),  # before the first mini-batch
        moves,
    )
    return Policy(partial(_serve, state, STEPS, log.accesses, log.next_access), moves)


@entry_point
def _serve(
    state: _State, steps: int, log: Accesses, next_access: Words, accesses: Accesses, levels: Levels
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
            _install(state, key, next_time)
        elif _make_room(state, log, next_time):
            _install(state, key, next_time)
            state.moves[INSTALLS, 0] += 1
        state.position[_INDEX] = index + 1


@compiled
def _extend_known_accesses(state: _State, log: Accesses, end: int) -> None:
    for index in range(state.position[_END], end):
        key = int64(log[index]) & KEY
        if state.state_of[key] == _UNKNOWN:
            unlink(state.links, state.lists, _ONLY, key)
            state.state_of[key] = _KNOWN
            insert_time(state.times, _ONLY, index)
    state.position[_END] = end


@compiled
def _install(state: _State, key: int, next_time: int) -> None:
    if next_time < state.position[_END]:
        insert_time(state.times, _ONLY, next_time)
        state.state_of[key] = _KNOWN
    else:
        push(state.links, state.lists, _ONLY, key)
        state.state_of[key] = _UNKNOWN


@compiled
def _make_room(state: _State, log: Accesses, next_time: int) -> bool:
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
    make,
)
