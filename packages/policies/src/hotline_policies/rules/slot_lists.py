"""Linked lists over slots, a map between keys and slots, and slots ordered by a count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled, int64
from nativekit.records import Ints

# Doubly linked lists over shared slots, as LRU queues use them.
#
# `links` is int32[2, slots]: the previous and next slot of each. `lists` is int64[lists, 3]: head, tail and
# length. A list's head is the slot pushed last.

Links = NDArray[np.int32]

NONE = -1
_PREVIOUS, _NEXT = 0, 1  # rows of `links`
_HEAD, _TAIL, _LENGTH = 0, 1, 2  # columns of `lists`


def make_lists(slots: int, count: int) -> tuple[Links, Ints]:
    lists = np.full((count, 3), NONE, np.int64)
    lists[:, _LENGTH] = 0
    return np.full((2, slots), NONE, np.int32), lists


@compiled
def push(links: Links, lists: Ints, list_index: int, slot: int) -> None:
    head = lists[list_index, _HEAD]
    links[_PREVIOUS, slot] = NONE
    links[_NEXT, slot] = head
    if head == NONE:
        lists[list_index, _TAIL] = slot
    else:
        links[_PREVIOUS, head] = slot
    lists[list_index, _HEAD] = slot
    lists[list_index, _LENGTH] += 1


@compiled
def unlink(links: Links, lists: Ints, list_index: int, slot: int) -> None:
    previous, next_ = int64(links[_PREVIOUS, slot]), int64(links[_NEXT, slot])
    if previous == NONE:
        lists[list_index, _HEAD] = next_
    else:
        links[_NEXT, previous] = next_
    if next_ == NONE:
        lists[list_index, _TAIL] = previous
    else:
        links[_PREVIOUS, next_] = previous
    lists[list_index, _LENGTH] -= 1


@compiled
def head(lists: Ints, list_index: int) -> int:
    return int64(lists[list_index, _HEAD])


@compiled
def previous(links: Links, slot: int) -> int:
    return int64(links[_PREVIOUS, slot])


@compiled
def tail(lists: Ints, list_index: int) -> int:
    return int64(lists[list_index, _TAIL])


@compiled
def length(lists: Ints, list_index: int) -> int:
    return int64(lists[list_index, _LENGTH])


# A map between the keys that a policy tracks and their slots.

NO_SLOT = -1
_NO_KEY = -1


class SlotMap(NamedTuple):
    slot_of: NDArray[np.int32]  # int32[distinct]: slot of each key of the log, or NO_SLOT
    key_of: Ints  # int64[slots]: key of each slot, or -1


def make_slot_map(distinct: int, slots: int) -> SlotMap:
    return SlotMap(np.full(distinct, NO_SLOT, np.int32), np.full(slots, _NO_KEY, np.int64))


@compiled
def slot_of(slots: SlotMap, key: int) -> int:
    return int64(slots.slot_of[key])


@compiled
def key_of(slots: SlotMap, slot: int) -> int:
    return int64(slots.key_of[slot])


def keys_with_slots(slots: SlotMap) -> NDArray[np.int64]:
    return np.flatnonzero(slots.slot_of != NO_SLOT)


@compiled
def assign(slots: SlotMap, slot: int, key: int) -> None:
    """Assign a slot to a key that has no slot; the key that had this slot is left without a slot."""
    release(slots, slot)
    slots.key_of[slot] = key
    slots.slot_of[key] = slot


@compiled
def release(slots: SlotMap, slot: int) -> None:
    key = int64(slots.key_of[slot])
    if key != _NO_KEY:
        slots.slot_of[key] = NO_SLOT
    slots.key_of[slot] = _NO_KEY


# Slots ordered by a count, with updates in constant time: a linked list per count, and the lists in order.
#
# (Shah, Mitra and Matani, 2010, for LFU; the stream summary of Metwally et al., ICDT 2005, for
# SpaceSaving.) Among slots of equal count, `lowest_slot` returns the slot that reached that count first.

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
