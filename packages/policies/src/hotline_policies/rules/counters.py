"""The top k of a period by approximate counts, as a switch can count: SpaceSaving and HeavyKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, PolicyLog
from hotline_policies.policy import Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.hashed import HASH_BITS, hash_key, to_bucket
from hotline_policies.rules.selected import PeriodicSet, hit_or_install, periodic_policy, rank_by_count
from hotline_policies.rules.slot_lists import (
    NO_SLOT,
    FrequencyLists,
    SlotMap,
    add,
    assign,
    count_of,
    increment,
    key_of,
    lowest_slot,
    make_frequency_lists,
    make_slot_map,
    release,
    slot_of,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

# The top k by SpaceSaving's counts of a period, with two counters for each key that the set may have.
#
# (Metwally, Agrawal and El Abbadi, ICDT 2005.) A key without a counter takes over and increments the
# lowest.

COUNTERS_PER_KEY = 2


class _SpaceSavingCounters(NamedTuple):
    counts: FrequencyLists
    slots: SlotMap
    used_counters: Ints  # int64[1]: counters in use


def make_space_saving(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    """Make the policy: each period begins without counts; among equal counts the smaller key is selected."""
    (size,), moves = sizes, zero_moves(sizes)
    key_set = PeriodicSet(np.zeros(len(log.keys), np.uint8), moves)
    counters = _make_counters(make_slot_map(len(log.keys), COUNTERS_PER_KEY * size))

    def serve(accesses: Accesses, levels: Levels) -> None:
        _serve_space_saving(key_set, counters, accesses, levels)

    def select(previous: NDArray[np.integer]) -> NDArray[np.int64]:
        nonlocal counters
        used_counters = int(counters.used_counters[0])
        keys, counts = np.empty(used_counters, np.int64), np.empty(used_counters, np.int64)
        _read_and_clear_counters(counters, keys, counts)
        counters = _make_counters(counters.slots)
        return rank_by_count(keys, counts)[:size]

    return periodic_policy(key_set, serve, select)


def _make_counters(slots: SlotMap) -> _SpaceSavingCounters:
    return _SpaceSavingCounters(make_frequency_lists(len(slots.key_of)), slots, np.zeros(1, np.int64))


@entry_point
def _serve_space_saving(
    key_set: PeriodicSet, counters: _SpaceSavingCounters, accesses: Accesses, levels: Levels
) -> None:
    key_set = as_ref(key_set)
    counters = as_ref(counters)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not hit_or_install(key_set, key)
        _count_in_counter(counters, key)


@compiled
def _count_in_counter(counters: _SpaceSavingCounters, key: int) -> None:
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
def _read_and_clear_counters(counters: _SpaceSavingCounters, keys: Ints, counts: Ints) -> None:
    counters = as_ref(counters)
    for slot in range(len(counts)):
        keys[slot], counts[slot] = key_of(counters.slots, slot), count_of(counters.counts, slot)
        release(counters.slots, slot)


SPACE_SAVING = PolicySpec(
    "spacesaving",
    "SpaceSaving",
    "the top k of a period by 2 k counters: a key without one takes over the lowest",
    make_space_saving,
)


# The top k by HeavyKeeper's counts: two hashed rows of cells, where accesses of other keys decay a count.
#
# (Yang et al., IEEE/ACM ToN 27, 2019.) Another key's access decrements a count c with probability 1.08^-c,
# and takes over the cell at 0. Cells store whole keys, not fingerprints, because the control plane that
# reads them at the end of a period installs these keys. There are two cells for each key that the set may
# have.

CELL_ROWS = 2
BASE = 1.08
_SEED, _DRAW_SEED = 18, 32  # seeds of hashes: of cells (one per row), and of random draws
_HASHES = 1 << HASH_BITS
DECAYS = np.array([int(_HASHES * BASE**-count) for count in range(256)], np.int64)
"""Probability that a count decays, by count, in units of 2^-31; larger counts do not decay."""


class _HeavyKeeperCells(NamedTuple):
    keys: Ints  # int64[CELL_ROWS, cells]: key of each cell
    counts: Ints  # int64[CELL_ROWS, cells]: 0 in a free cell
    decays: Ints
    draws: Ints  # int64[1]: number of random draws so far


def make_heavy_keeper(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    """Make cells that are cleared with each period; among equal counts the smaller key is selected."""
    (size,), moves = sizes, zero_moves(sizes)
    key_set = PeriodicSet(np.zeros(len(log.keys), np.uint8), moves)
    shape = (CELL_ROWS, size)
    cells = _HeavyKeeperCells(
        np.zeros(shape, np.int64), np.zeros(shape, np.int64), DECAYS, np.zeros(1, np.int64)
    )

    def select(previous: NDArray[np.integer]) -> NDArray[np.int64]:
        is_used = cells.counts > 0
        ranked = rank_by_count(cells.keys[is_used], cells.counts[is_used])
        _, first_ranks = np.unique(ranked, return_index=True)
        cells.counts[:] = 0
        return ranked[np.sort(first_ranks)[:size]]

    return periodic_policy(key_set, partial(_serve_heavy_keeper, key_set, cells), select)


@entry_point
def _serve_heavy_keeper(
    key_set: PeriodicSet, cells: _HeavyKeeperCells, accesses: Accesses, levels: Levels
) -> None:
    key_set = as_ref(key_set)
    cells = as_ref(cells)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not hit_or_install(key_set, key)  # 0: the set has the key, 1: it has not
        for row in range(CELL_ROWS):
            _count_in_cell(cells, row, to_bucket(hash_key(key, _SEED + row), cells.keys.shape[1]), key)


@compiled
def _count_in_cell(cells: _HeavyKeeperCells, row: int, place: int, key: int) -> None:
    count = cells.counts[row, place]
    if count > 0 and cells.keys[row, place] == key:
        cells.counts[row, place] = count + 1
        return
    if count > 0:
        cells.draws[0] += 1
        draw = hash_key(cells.draws[0], _DRAW_SEED)
        if count >= len(cells.decays) or draw >= cells.decays[count]:
            return
        count -= 1
        cells.counts[row, place] = count
    if count == 0:
        cells.keys[row, place] = key
        cells.counts[row, place] = 1


HEAVY_KEEPER = PolicySpec(
    "heavykeeper",
    "HeavyKeeper",
    "the top k of a period by 2 k hashed cells, in which other keys make a key's count decay",
    make_heavy_keeper,
)
