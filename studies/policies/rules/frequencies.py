"""Slots in order of a count, in constant time: a list for each count, the lists in order.

(Shah, Mitra and Matani, 2010, for LFU; the stream summary of Metwally et al., ICDT 2005, for SpaceSaving.)
Of one count the slot that has it longest comes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from studies.policies.compiling import compiled, int64
from studies.policies.rules.chains import NONE, chains, length, push, tail, unlink

_FIRST, _SPARE = 0, 1
_BELOW, _ABOVE, _COUNT = 0, 1, 2


class Frequencies(NamedTuple):
    """Up to so many slots."""

    links: Any
    ends: Any
    list_of: Any
    """int32[slots]: in which list."""
    order: Any
    """int64[lists, 3]: the lists below and above, and the count."""
    spare: Any
    """int64[lists]: lists that are not in use."""
    at: Any
    """int64[2]: the list of the least count, and how many are spare."""


def frequencies(slots: int) -> Frequencies:
    """Of no slot yet."""
    lists = slots + 1
    links, ends = chains(slots, lists)
    order = np.full((lists, 3), NONE, np.int64)
    at = np.array([NONE, lists], np.int64)
    return Frequencies(links, ends, np.full(slots, NONE, np.int32), order, np.arange(lists), at)


@compiled
def least(state: Frequencies) -> int:
    """The slot of the least count that has it longest."""
    return tail(state.ends, state.at[_FIRST])


@compiled
def count_of(state: Frequencies, slot: int) -> int:
    """The count of a slot."""
    return int64(state.order[int64(state.list_of[slot]), _COUNT])


@compiled
def add(state: Frequencies, slot: int) -> None:
    """Take in a slot with a count of 1."""
    _into(state, slot, 1, NONE)


@compiled
def raise_(state: Frequencies, slot: int) -> None:
    """Add 1 to the count of a slot."""
    which = int64(state.list_of[slot])
    count = state.order[which, _COUNT] + 1
    above = state.order[which, _ABOVE]
    unlink(state.links, state.ends, which, slot)
    if length(state.ends, which) > 0:
        _into(state, slot, count, which)
    elif above == NONE or state.order[above, _COUNT] != count:
        state.order[which, _COUNT] = count  # the list is empty, and goes along
        push(state.links, state.ends, which, slot)
    else:
        _into(state, slot, count, which)
        _drop(state, which)


@compiled
def take(state: Frequencies, slot: int) -> None:
    """Take a slot out."""
    which = int64(state.list_of[slot])
    unlink(state.links, state.ends, which, slot)
    if length(state.ends, which) == 0:
        _drop(state, which)


@compiled
def halve(state: Frequencies) -> None:
    """Halve all counts, down to 1; the order of the slots stays."""
    which = state.at[_FIRST]
    while which != NONE:
        state.order[which, _COUNT] = max(state.order[which, _COUNT] // 2, 1)
        below, above = state.order[which, _BELOW], state.order[which, _ABOVE]
        if below != NONE and state.order[below, _COUNT] == state.order[which, _COUNT]:
            while length(state.ends, which) > 0:
                slot = tail(state.ends, which)
                unlink(state.links, state.ends, which, slot)
                push(state.links, state.ends, below, slot)
                state.list_of[slot] = below
            _drop(state, which)
        which = above


@compiled
def _into(state: Frequencies, slot: int, count: int, below: int) -> None:
    """Put a slot into the list of a count, which is the next above that list or does not exist."""
    above = state.at[_FIRST] if below == NONE else state.order[below, _ABOVE]
    if above == NONE or state.order[above, _COUNT] != count:
        state.at[_SPARE] -= 1
        which = state.spare[state.at[_SPARE]]
        state.order[which, _BELOW] = below
        state.order[which, _ABOVE] = above
        state.order[which, _COUNT] = count
        if below == NONE:
            state.at[_FIRST] = which
        else:
            state.order[below, _ABOVE] = which
        if above != NONE:
            state.order[above, _BELOW] = which
        above = which
    push(state.links, state.ends, above, slot)
    state.list_of[slot] = above


@compiled
def _drop(state: Frequencies, which: int) -> None:
    """Take an empty list out."""
    below, above = state.order[which, _BELOW], state.order[which, _ABOVE]
    if below == NONE:
        state.at[_FIRST] = above
    else:
        state.order[below, _ABOVE] = above
    if above != NONE:
        state.order[above, _BELOW] = below
    state.spare[state.at[_SPARE]] = which
    state.at[_SPARE] += 1
