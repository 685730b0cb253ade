"""The top k by what SpaceSaving counts in a period, with two counters for each key that is kept.

(Metwally, Agrawal and El Abbadi, ICDT 2005.) A key that has no counter takes over the least one, and adds 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from native.reference import borrowed
from policies.compiling import compiled, entry_point, int64
from policies.log import KEY, Accesses, Log
from policies.policy import Kind, Levels, Policy, no_moves
from policies.rules.chosen import Chosen, choose, chosen, is_hot
from policies.rules.frequencies import Frequencies, add, count_of, frequencies, least, raise_

COUNTERS = 2
"""For each key that is kept."""


class _Counted(NamedTuple):
    counts: Frequencies
    slot_of: Any
    """int32[distinct]: -1 where a key has no counter."""
    key_of: Any
    """int64[counters]"""
    used: Any
    """int64[1]"""


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Counters begin again with each period; of equals the smaller key is chosen."""
    (size,), moves = sizes, no_moves(sizes)
    kept = chosen(len(log.keys), moves)
    now = np.zeros(0, np.int64)
    slot_of = np.full(len(log.keys), -1, np.int32)
    counted = _counting(COUNTERS * size, slot_of)

    def serve(accesses: Accesses, levels: Levels) -> None:
        _serve(kept, counted, accesses, levels)

    def turn() -> None:
        nonlocal now, counted
        used = int(counted.used[0])
        keys, counts = counted.key_of[:used], np.empty(used, np.int64)
        _read(counted, counts)
        before, now = now, keys[np.lexsort((keys, -counts))[:size]]
        choose(kept, before, now)
        slot_of[keys] = -1
        counted = _counting(COUNTERS * size, slot_of)

    return Policy(serve, moves, turn)


def _counting(counters: int, slot_of: Any) -> _Counted:
    return _Counted(frequencies(counters), slot_of, np.zeros(counters, np.int64), np.zeros(1, np.int64))


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
    slot = int64(counted.slot_of[key])
    if slot < 0:
        slot = counted.used[0]
        if slot < len(counted.key_of):
            counted.used[0] += 1
            counted.key_of[slot], counted.slot_of[key] = key, slot
            add(counted.counts, slot)
            return
        slot = least(counted.counts)
        counted.slot_of[counted.key_of[slot]] = -1
        counted.key_of[slot], counted.slot_of[key] = key, slot
    raise_(counted.counts, slot)


@entry_point
def _read(counted: _Counted, counts: Any) -> None:
    counted = borrowed(counted)
    for slot in range(len(counts)):
        counts[slot] = count_of(counted.counts, slot)


SPACE_SAVING = Kind(
    "spacesaving",
    "SpaceSaving",
    "the top k of a period by 2 k counters: a key without one takes over the least",
    make,
)
