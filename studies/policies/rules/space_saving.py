"""The top k by what SpaceSaving counts in a period, with two counters for each key that is kept.

(Metwally, Agrawal and El Abbadi, ICDT 2005.) A key that has no counter takes over the least one, and adds 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.log import KEY, Accesses, Log
from studies.policies.policy import Kind, Levels, Policy, no_moves
from studies.policies.rules.chosen import Chosen, by_period, chosen, is_hot, most_counted
from studies.policies.rules.frequencies import Frequencies, add, count_of, frequencies, least, raise_
from studies.policies.rules.places import NOWHERE, Places, clear, give, key_of, places, slot_of

COUNTERS = 2
"""For each key that is kept."""


class _Counted(NamedTuple):
    counts: Frequencies
    places: Places
    used: Any
    """int64[1]"""


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Counters begin again with each period; of equals the smaller key is chosen."""
    (size,), moves = sizes, no_moves(sizes)
    kept = chosen(len(log.keys), moves)
    counted = _counting(places(len(log.keys), COUNTERS * size))

    def serve(accesses: Accesses, levels: Levels) -> None:
        _serve(kept, counted, accesses, levels)

    def select(before: NDArray[np.integer]) -> NDArray[np.int64]:
        nonlocal counted
        used = int(counted.used[0])
        keys, counts = np.empty(used, np.int64), np.empty(used, np.int64)
        _read_and_clear(counted, keys, counts)
        counted = _counting(counted.places)
        return most_counted(keys, counts)[:size]

    return by_period(kept, serve, select)


def _counting(nobody: Places) -> _Counted:
    return _Counted(frequencies(len(nobody.key_of)), nobody, np.zeros(1, np.int64))


@entry_point
def _serve(kept: Chosen, counted: _Counted, accesses: Any, levels: Any) -> None:
    kept = borrowed(kept)
    counted = borrowed(counted)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not is_hot(kept, key)
        _count(counted, key)


@compiled
def _count(counted: _Counted, key: int) -> None:
    slot = slot_of(counted.places, key)
    if slot == NOWHERE:
        slot = counted.used[0]
        if slot < len(counted.places.key_of):
            counted.used[0] += 1
            give(counted.places, slot, key)
            add(counted.counts, slot)
            return
        slot = least(counted.counts)
        give(counted.places, slot, key)
    raise_(counted.counts, slot)


@entry_point
def _read_and_clear(counted: _Counted, keys: Any, counts: Any) -> None:
    counted = borrowed(counted)
    for slot in range(len(counts)):
        keys[slot], counts[slot] = key_of(counted.places, slot), count_of(counted.counts, slot)
        clear(counted.places, slot)


SPACE_SAVING = Kind(
    "spacesaving",
    "SpaceSaving",
    "the top k of a period by 2 k counters: a key without one takes over the least",
    make,
)
