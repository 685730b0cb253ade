"""Slots ordered by a count, with updates in constant time: a linked list per count, and the lists in order.

(Shah, Mitra and Matani, 2010, for LFU; the stream summary of Metwally et al., ICDT 2005, for SpaceSaving.)
Among slots of equal count, `lowest_slot` returns the slot that reached that count first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled, int64
from nativekit.records import Ints
from studies.policies.rules.linked_lists import NONE, Links, length, make_lists, push, tail, unlink

_FIRST, _FREE = 0, 1
_BELOW, _ABOVE, _COUNT = 0, 1, 2


class FrequencyLists(NamedTuple):
    links: Links
    lists: Ints
    list_of: NDArray[np.int32]
    order: Ints  # int64[lists, 3]: the lists of the next lower and higher count, and the count
    free: Ints  # int64[lists]: stack of the lists not in use
    meta: Ints  # int64[2]: the list of the lowest count, and the height of the stack `free`


def make_frequency_lists(slots: int) -> FrequencyLists:
    list_count = slots + 1
    links, lists = make_lists(slots, list_count)
    order = np.full((list_count, 3), NONE, np.int64)
    meta = np.array([NONE, list_count], np.int64)
    return FrequencyLists(links, lists, np.full(slots, NONE, np.int32), order, np.arange(list_count), meta)


@compiled
def lowest_slot(state: FrequencyLists) -> int:
    return tail(state.lists, state.meta[_FIRST])


@compiled
def count_of(state: FrequencyLists, slot: int) -> int:
    return int64(state.order[int64(state.list_of[slot]), _COUNT])


@compiled
def add(state: FrequencyLists, slot: int) -> None:
    _insert(state, slot, 1, NONE)


@compiled
def increment(state: FrequencyLists, slot: int) -> None:
    list_index = int64(state.list_of[slot])
    count = state.order[list_index, _COUNT] + 1
    above = state.order[list_index, _ABOVE]
    unlink(state.links, state.lists, list_index, slot)
    if length(state.lists, list_index) > 0:
        _insert(state, slot, count, list_index)
    elif above == NONE or state.order[above, _COUNT] != count:
        state.order[list_index, _COUNT] = count  # the list is empty: reuse it
        push(state.links, state.lists, list_index, slot)
    else:
        _insert(state, slot, count, list_index)
        _remove_list(state, list_index)


@compiled
def remove(state: FrequencyLists, slot: int) -> None:
    list_index = int64(state.list_of[slot])
    unlink(state.links, state.lists, list_index, slot)
    if length(state.lists, list_index) == 0:
        _remove_list(state, list_index)


@compiled
def halve(state: FrequencyLists) -> None:
    """Halve all counts, to no less than 1, and preserve the order of the slots."""
    list_index = state.meta[_FIRST]
    while list_index != NONE:
        state.order[list_index, _COUNT] = max(state.order[list_index, _COUNT] // 2, 1)
        below, above = state.order[list_index, _BELOW], state.order[list_index, _ABOVE]
        if below != NONE and state.order[below, _COUNT] == state.order[list_index, _COUNT]:
            while length(state.lists, list_index) > 0:
                slot = tail(state.lists, list_index)
                unlink(state.links, state.lists, list_index, slot)
                push(state.links, state.lists, below, slot)
                state.list_of[slot] = below
            _remove_list(state, list_index)
        list_index = above


@compiled
def _insert(state: FrequencyLists, slot: int, count: int, below: int) -> None:
    above = state.meta[_FIRST] if below == NONE else state.order[below, _ABOVE]
    if above == NONE or state.order[above, _COUNT] != count:
        state.meta[_FREE] -= 1
        list_index = state.free[state.meta[_FREE]]
        state.order[list_index, _BELOW] = below
        state.order[list_index, _ABOVE] = above
        state.order[list_index, _COUNT] = count
        if below == NONE:
            state.meta[_FIRST] = list_index
        else:
            state.order[below, _ABOVE] = list_index
        if above != NONE:
            state.order[above, _BELOW] = list_index
        above = list_index
    push(state.links, state.lists, above, slot)
    state.list_of[slot] = above


@compiled
def _remove_list(state: FrequencyLists, list_index: int) -> None:
    below, above = state.order[list_index, _BELOW], state.order[list_index, _ABOVE]
    if below == NONE:
        state.meta[_FIRST] = above
    else:
        state.order[below, _ABOVE] = above
    if above != NONE:
        state.order[above, _BELOW] = below
    state.free[state.meta[_FREE]] = list_index
    state.meta[_FREE] += 1
