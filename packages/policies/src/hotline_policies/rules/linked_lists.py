"""Doubly linked lists over shared slots, as LRU queues use them.

`links` is int32[2, slots]: the previous and next slot of each. `lists` is int64[lists, 3]: head, tail and
length. A list's head is the slot pushed last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled, int64
from nativekit.records import Ints

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
