"""Slots in doubly linked lists, several of them over the same slots: what LRU queues are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies.policies.compiling import compiled, int64

NONE = -1
_BEFORE, _BEHIND = 0, 1
_HEAD, _TAIL, _LENGTH = 0, 1, 2


def chains(slots: int, lists: int) -> tuple[Any, Any]:
    """Links int32[2, slots] and ends int64[lists, 3] of lists that are empty."""
    ends = np.full((lists, 3), NONE, np.int64)
    ends[:, _LENGTH] = 0
    return np.full((2, slots), NONE, np.int32), ends


@compiled
def push(links: Any, ends: Any, which: int, slot: int) -> None:
    """Put a slot at the head."""
    head = ends[which, _HEAD]
    links[_BEFORE, slot] = NONE
    links[_BEHIND, slot] = head
    if head == NONE:
        ends[which, _TAIL] = slot
    else:
        links[_BEFORE, head] = slot
    ends[which, _HEAD] = slot
    ends[which, _LENGTH] += 1


@compiled
def unlink(links: Any, ends: Any, which: int, slot: int) -> None:
    """Take a slot out of its list."""
    before, behind = int64(links[_BEFORE, slot]), int64(links[_BEHIND, slot])
    if before == NONE:
        ends[which, _HEAD] = behind
    else:
        links[_BEHIND, before] = behind
    if behind == NONE:
        ends[which, _TAIL] = before
    else:
        links[_BEFORE, behind] = before
    ends[which, _LENGTH] -= 1


@compiled
def head(ends: Any, which: int) -> int:
    """The slot that was put there last, or NONE."""
    return int64(ends[which, _HEAD])


@compiled
def before(links: Any, slot: int) -> int:
    """The slot that was put there next after it, or NONE."""
    return int64(links[_BEFORE, slot])


@compiled
def tail(ends: Any, which: int) -> int:
    """The slot that was put there first, or NONE."""
    return int64(ends[which, _TAIL])


@compiled
def length(ends: Any, which: int) -> int:
    """How many slots are in a list."""
    return int64(ends[which, _LENGTH])
