"""Policies by frequency: LFU, TinyLFU and W-TinyLFU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, PolicyLog
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.hashed import Sketch, count_access, estimate, make_sketch
from hotline_policies.rules.slot_lists import (
    NO_SLOT,
    NONE,
    FrequencyLists,
    Links,
    SlotMap,
    add,
    assign,
    count_of,
    halve,
    increment,
    key_of,
    keys_with_slots,
    length,
    lowest_slot,
    make_frequency_lists,
    make_lists,
    make_slot_map,
    push,
    release,
    remove,
    slot_of,
    tail,
    unlink,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

# Least frequently used with ageing: the counts of cached keys are halved when their mean exceeds a limit.
#
# (Arlitt et al., Performance Evaluation Review 27, 2000: LFU-Aging.) Among equal counts the key that
# reached its count first is evicted, as in cachetools.

MAX_MEAN_COUNT = 10
_USED, _SUM = 0, 1  # elements of `totals`


class _LfuState(NamedTuple):
    counts: FrequencyLists
    slots: SlotMap
    totals: Ints  # int64[2]: slots in use, and the sum of their counts
    max_sum: Ints  # int64[1]: sum of counts above which all counts are halved; 0 disables ageing
    moves: Ints


def make_lfu(log: PolicyLog, sizes: Sequence[int], max_mean: int = MAX_MEAN_COUNT) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    state = _LfuState(
        make_frequency_lists(size),
        make_slot_map(len(log.keys), size),
        np.zeros(2, np.int64),
        np.array([max_mean * size], np.int64),
        moves,
    )
    return Policy(partial(_serve_lfu, state), moves, held_keys=partial(keys_with_slots, state.slots))


@entry_point
def _serve_lfu(state: _LfuState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(state.slots, key)
        levels[i] = slot == NO_SLOT
        if slot == NO_SLOT:
            _admit_to_lfu(state, key)
        else:
            increment(state.counts, slot)
        state.totals[_SUM] += 1
        if 0 < state.max_sum[0] < state.totals[_SUM]:
            _halve_counts(state)


@compiled
def _admit_to_lfu(state: _LfuState, key: int) -> None:
    slot = state.totals[_USED]
    if slot < len(state.slots.key_of):
        state.totals[_USED] += 1
    else:
        slot = lowest_slot(state.counts)
        state.totals[_SUM] -= count_of(state.counts, slot)
        remove(state.counts, slot)
        state.moves[EVICTIONS, 0] += 1
    assign(state.slots, slot, key)
    add(state.counts, slot)
    state.moves[INSTALLS, 0] += 1


@compiled
def _halve_counts(state: _LfuState) -> None:
    halve(state.counts)
    total = 0
    for slot in range(state.totals[_USED]):
        total += count_of(state.counts, slot)
    state.totals[_SUM] = total


LFU = PolicySpec(
    "lfu",
    "LFU",
    "the least frequently used key leaves; counts are halved when their mean exceeds 10",
    make_lfu,
)


# TinyLFU and W-TinyLFU (Einziger, Friedman and Manes, ACM ToS 13, 2017), which admit keys by a sketch.
#
# TinyLFU is LRU that admits a key if the sketch ranks it over its victim. W-TinyLFU has a small LRU window
# before a segmented LRU. The window has 1 % of the slots, at least one slot. Of the other slots, 80 % are
# protected: they are for keys that were accessed again.

_ONLY = 0  # index of TinyLFU's list
WINDOW, PROBATION, PROTECTED = 0, 1, 2
_MAIN = 1  # element of `capacities`: probation and protected together
WINDOW_SHARE, PROTECTED_SHARE = 0.01, 0.8


class _TinyLfuState(NamedTuple):
    sketch: Sketch
    links: Links
    lists: Ints
    slots: SlotMap
    moves: Ints


def make_tinylfu(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    slots = make_slot_map(len(log.keys), size)
    state = _TinyLfuState(make_sketch(size), *make_lists(size, count=1), slots, moves)
    return Policy(partial(_serve_tinylfu, state), moves, held_keys=partial(keys_with_slots, slots))


@entry_point
def _serve_tinylfu(state: _TinyLfuState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(state.slots, key)
        levels[i] = slot == NO_SLOT
        count_access(state.sketch, key)
        if slot == NO_SLOT:
            _admit_by_sketch(state, key)
        else:
            unlink(state.links, state.lists, _ONLY, slot)
            push(state.links, state.lists, _ONLY, slot)


@compiled
def _admit_by_sketch(state: _TinyLfuState, key: int) -> None:
    slot = length(state.lists, _ONLY)
    if slot == len(state.slots.key_of):
        slot = tail(state.lists, _ONLY)
        if estimate(state.sketch, key) <= estimate(state.sketch, key_of(state.slots, slot)):
            return
        unlink(state.links, state.lists, _ONLY, slot)
        state.moves[EVICTIONS, 0] += 1
    assign(state.slots, slot, key)
    push(state.links, state.lists, _ONLY, slot)
    state.moves[INSTALLS, 0] += 1


TINYLFU = PolicySpec(
    "tinylfu", "TinyLFU", "LRU that admits keys by a sketch of recent accesses", make_tinylfu
)


class _WTinyLfuState(NamedTuple):
    sketch: Sketch
    links: Links
    lists: Ints
    capacities: Ints
    """int64[3]: slots of the window, of the other two segments together, and of the protected segment."""
    slots: SlotMap  # size + 1 slots: the additional slot is for a key just admitted, until an eviction
    list_of: NDArray[np.int8]  # int8[size + 1]: WINDOW, PROBATION or PROTECTED
    free: Ints  # int64[1]: the free slot
    moves: Ints


def segment_capacities(size: int) -> tuple[int, int, int]:
    window = max(1, round(WINDOW_SHARE * size))
    return window, size - window, int(PROTECTED_SHARE * (size - window))


def make_w_tinylfu(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    """Make the policy: keys enter the window, and the sketch decides which keys leave it for probation."""
    (size,), moves = sizes, zero_moves(sizes)
    state = _WTinyLfuState(
        make_sketch(size),
        *make_lists(size + 1, count=3),
        np.array(segment_capacities(size), np.int64),
        make_slot_map(len(log.keys), size + 1),
        np.zeros(size + 1, np.int8),
        np.zeros(1, np.int64),
        moves,
    )
    return Policy(partial(_serve_w_tinylfu, state), moves, held_keys=partial(keys_with_slots, state.slots))


@entry_point
def _serve_w_tinylfu(state: _WTinyLfuState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(state.slots, key)
        levels[i] = slot == NO_SLOT
        count_access(state.sketch, key)
        if slot == NO_SLOT:
            _admit_to_window(state, key)
        else:
            _promote(state, slot)


@compiled
def _put(state: _WTinyLfuState, list_index: int, slot: int) -> None:
    push(state.links, state.lists, list_index, slot)
    state.list_of[slot] = list_index


@compiled
def _promote(state: _WTinyLfuState, slot: int) -> None:
    list_index = int64(state.list_of[slot])
    unlink(state.links, state.lists, list_index, slot)
    if list_index == WINDOW:
        _put(state, WINDOW, slot)
        return
    _put(state, PROTECTED, slot)
    if length(state.lists, PROTECTED) > state.capacities[PROTECTED]:
        last_slot = tail(state.lists, PROTECTED)
        unlink(state.links, state.lists, PROTECTED, last_slot)
        _put(state, PROBATION, last_slot)


@compiled
def _admit_to_window(state: _WTinyLfuState, key: int) -> None:
    slot = state.free[0]
    state.free[0] += 1  # until all slots have been used; afterwards an eviction sets it
    assign(state.slots, slot, key)
    _put(state, WINDOW, slot)
    state.moves[INSTALLS, 0] += 1
    if length(state.lists, WINDOW) > state.capacities[WINDOW]:
        candidate_slot = tail(state.lists, WINDOW)
        unlink(state.links, state.lists, WINDOW, candidate_slot)
        if length(state.lists, PROBATION) + length(state.lists, PROTECTED) < state.capacities[_MAIN]:
            _put(state, PROBATION, candidate_slot)
        else:
            _contest(state, candidate_slot)


@compiled
def _contest(state: _WTinyLfuState, candidate_slot: int) -> None:
    list_index = PROBATION if tail(state.lists, PROBATION) != NONE else PROTECTED
    evicted_slot, victim_slot = candidate_slot, tail(state.lists, list_index)
    if victim_slot != NONE and (
        estimate(state.sketch, key_of(state.slots, candidate_slot))
        > estimate(state.sketch, key_of(state.slots, victim_slot))
    ):
        unlink(state.links, state.lists, list_index, victim_slot)
        _put(state, PROBATION, candidate_slot)
        evicted_slot = victim_slot
    release(state.slots, evicted_slot)
    state.free[0] = evicted_slot
    state.moves[EVICTIONS, 0] += 1


W_TINYLFU = PolicySpec(
    "w-tinylfu",
    "W-TinyLFU",
    "a small LRU window before a segmented LRU that admits keys by a sketch of recent accesses",
    make_w_tinylfu,
)
