"""Slots ordered by a count, with updates in constant time: a linked list per count, and the lists in order.

(Shah, Mitra and Matani, 2010, for LFU; the stream summary of Metwally et al., ICDT 2005, for SpaceSaving.)
Among slots of equal count, `lowest_slot` returns the slot that reached that count first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotline_policies.rules.linked_lists import NONE, Links, length, make_lists, push, tail, unlink
from nativekit.compile import compiled, int64
from nativekit.records import Ints

_FIRST, _FREE = 0, 1  # elements of `meta`
_LOWER, _HIGHER, _COUNT = 0, 1, 2  # columns of `order`


class FrequencyLists(NamedTuple):
    links: Links
    lists: Ints
    list_of: NDArray[np.int32]
    order: Ints  # int64[lists, 3]: the lists of the next lower and higher count, and the count
    free: Ints  # int64[lists]: stack of the lists not in use
    meta: Ints  # int64[2]: the list of the lowest count, and the height of the stack `free`


def make_frequency_lists(slots: int) -> FrequencyLists:
    list_count = slots + 1  # `increment` may add a list before it removes one
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
    _insert(state, slot, 1, NONE)  # with a count of 1, before the list of any larger count


@compiled
def increment(state: FrequencyLists, slot: int) -> None:
    list_index = int64(state.list_of[slot])
    count = state.order[list_index, _COUNT] + 1
    higher = state.order[list_index, _HIGHER]
    unlink(state.links, state.lists, list_index, slot)
    if length(state.lists, list_index) > 0:
        _insert(state, slot, count, list_index)
    elif higher == NONE or state.order[higher, _COUNT] != count:
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
        # Read before the list may be removed.
        lower, higher = state.order[list_index, _LOWER], state.order[list_index, _HIGHER]
        if lower != NONE and state.order[lower, _COUNT] == state.order[list_index, _COUNT]:
            while length(state.lists, list_index) > 0:
                slot = tail(state.lists, list_index)
                unlink(state.links, state.lists, list_index, slot)
                push(state.links, state.lists, lower, slot)
                state.list_of[slot] = lower
            _remove_list(state, list_index)
        list_index = higher


@compiled
def _insert(state: FrequencyLists, slot: int, count: int, lower: int) -> None:
    # The list of `count` is after the list `lower`, and is added if it is not there.
    higher = state.meta[_FIRST] if lower == NONE else state.order[lower, _HIGHER]
    if higher == NONE or state.order[higher, _COUNT] != count:
        state.meta[_FREE] -= 1
        list_index = state.free[state.meta[_FREE]]
        state.order[list_index, _LOWER] = lower
        state.order[list_index, _HIGHER] = higher
        state.order[list_index, _COUNT] = count
        if lower == NONE:
            state.meta[_FIRST] = list_index
        else:
            state.order[lower, _HIGHER] = list_index
        if higher != NONE:
            state.order[higher, _LOWER] = list_index
    else:
        list_index = higher
    push(state.links, state.lists, list_index, slot)
    state.list_of[slot] = list_index


@compiled
def _remove_list(state: FrequencyLists, list_index: int) -> None:
    lower, higher = state.order[list_index, _LOWER], state.order[list_index, _HIGHER]
    if lower == NONE:
        state.meta[_FIRST] = higher
    else:
        state.order[lower, _HIGHER] = higher
    if higher != NONE:
        state.order[higher, _LOWER] = lower
    state.free[state.meta[_FREE]] = list_index
    state.meta[_FREE] += 1
