"""The top k by SpaceSaving's counts of a period, with two counters for each key that the set may have.

(Metwally, Agrawal and El Abbadi, ICDT 2005.) A key without a counter takes over and increments the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.frequency_lists import (
    FrequencyLists,
    add,
    count_of,
    increment,
    lowest_slot,
    make_frequency_lists,
)
from hotline_policies.rules.periodic_set import PeriodicSet, hit_or_install, periodic_policy, rank_by_count
from hotline_policies.rules.slot_map import NO_SLOT, SlotMap, assign, key_of, make_slot_map, release, slot_of
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

COUNTERS_PER_KEY = 2


class _Counters(NamedTuple):
    counts: FrequencyLists
    slots: SlotMap
    used_counters: Ints  # int64[1]: counters in use


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Make the policy: each period begins without counts; among equal counts the smaller key is selected."""
    (size,), moves = sizes, zero_moves(sizes)
    key_set = PeriodicSet(np.zeros(len(log.keys), np.uint8), moves)
    counters = _make_counters(make_slot_map(len(log.keys), COUNTERS_PER_KEY * size))

    def serve(accesses: Accesses, levels: Levels) -> None:
        _serve(key_set, counters, accesses, levels)

    def select(previous: NDArray[np.integer]) -> NDArray[np.int64]:
        nonlocal counters
        used_counters = int(counters.used_counters[0])
        keys, counts = np.empty(used_counters, np.int64), np.empty(used_counters, np.int64)
        _read_and_clear(counters, keys, counts)
        counters = _make_counters(counters.slots)
        return rank_by_count(keys, counts)[:size]

    return periodic_policy(key_set, serve, select)


def _make_counters(slots: SlotMap) -> _Counters:
    return _Counters(make_frequency_lists(len(slots.key_of)), slots, np.zeros(1, np.int64))


@entry_point
def _serve(key_set: PeriodicSet, counters: _Counters, accesses: Accesses, levels: Levels) -> None:
    key_set = as_ref(key_set)
    counters = as_ref(counters)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not hit_or_install(key_set, key)
        _count_access(counters, key)


@compiled
def _count_access(counters: _Counters, key: int) -> None:
    slot = slot_of(counters.slots, key)
    if slot == NO_SLOT:
        slot = counters.used_counters[0]
        if slot < len(counters.slots.key_of):
            counters.used_counters[0] += 1
            assign(counters.slots, slot, key)
            add(counters.counts, slot)
            return
        slot = lowest_slot(counters.counts)
        assign(counters.slots, slot, key)
    increment(counters.counts, slot)


@entry_point
def _read_and_clear(counters: _Counters, keys: Ints, counts: Ints) -> None:
    counters = as_ref(counters)
    for slot in range(len(counts)):
        keys[slot], counts[slot] = key_of(counters.slots, slot), count_of(counters.counts, slot)
        release(counters.slots, slot)


SPACE_SAVING = PolicySpec(
    "spacesaving",
    "SpaceSaving",
    "the top k of a period by 2 k counters: a key without one takes over the lowest",
    make,
)
