"""Least frequently used with ageing: the counts of cached keys are halved when their mean exceeds a limit.

(Arlitt et al., Performance Evaluation Review 27, 2000: LFU-Aging.) Among equal counts the key that reached
its count first is evicted, as in cachetools.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.frequency_lists import (
    FrequencyLists,
    add,
    count_of,
    halve,
    increment,
    lowest_slot,
    make_frequency_lists,
    remove,
)
from hotline_policies.rules.slot_map import NO_SLOT, SlotMap, assign, make_slot_map, slot_of
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

MAX_MEAN_COUNT = 10
_USED, _SUM = 0, 1  # elements of `totals`


class _LfuState(NamedTuple):
    counts: FrequencyLists
    slots: SlotMap
    totals: Ints  # int64[2]: slots in use, and the sum of their counts
    max_sum: Ints  # int64[1]: sum of counts above which all counts are halved; 0 disables ageing
    moves: Ints


def make(log: Log, sizes: Sequence[int], max_mean: int = MAX_MEAN_COUNT) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    state = _LfuState(
        make_frequency_lists(size),
        make_slot_map(len(log.keys), size),
        np.zeros(2, np.int64),
        np.array([max_mean * size], np.int64),
        moves,
    )
    return Policy(partial(_serve, state), moves)


@entry_point
def _serve(state: _LfuState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(state.slots, key)
        levels[i] = slot == NO_SLOT
        if slot == NO_SLOT:
            _admit(state, key)
        else:
            increment(state.counts, slot)
        state.totals[_SUM] += 1
        if 0 < state.max_sum[0] < state.totals[_SUM]:
            _age(state)


@compiled
def _admit(state: _LfuState, key: int) -> None:
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
def _age(state: _LfuState) -> None:
    halve(state.counts)
    total = int64(0)
    for slot in range(state.totals[_USED]):
        total += count_of(state.counts, slot)
    state.totals[_SUM] = total


LFU = PolicySpec(
    "lfu", "LFU", "the least frequently used key leaves; counts are halved when their mean exceeds 10", make
)
