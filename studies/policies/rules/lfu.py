"""Least frequently used with ageing: counts of what is kept, halved where they are large on average.

(Arlitt et al., Performance Evaluation Review 27, 2000: LFU-Aging.) Of equals the one that has its count
longest leaves, as in cachetools.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.log import KEY, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Kind, Policy, no_moves
from studies.policies.rules.frequencies import (
    Frequencies,
    add,
    count_of,
    frequencies,
    halve,
    least,
    raise_,
    take,
)
from studies.policies.rules.places import NOWHERE, Places, give, places, slot_of

MEAN = 10
"""The mean count beyond which all are halved."""
_USED, _SUM = 0, 1


class _Kept(NamedTuple):
    counts: Frequencies
    places: Places
    at: Any
    """int64[2]: slots in use, and the sum of their counts."""
    most: Any
    """int64[1]: that sum at most; 0: without ageing."""
    moves: Any


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Every key that is accessed is admitted, with a count of 1."""
    return lfu(log, sizes, MEAN)


def lfu(log: Log, sizes: Sequence[int], mean: int) -> Policy:
    """The same with another mean; 0: without ageing."""
    (size,), moves = sizes, no_moves(sizes)
    kept = _Kept(
        frequencies(size),
        places(len(log.keys), size),
        np.zeros(2, np.int64),
        np.array([mean * size], np.int64),
        moves,
    )
    return Policy(partial(_serve, kept), moves)


@entry_point
def _serve(kept: _Kept, accesses: Any, levels: Any) -> None:
    kept = borrowed(kept)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(kept.places, key)
        levels[i] = slot == NOWHERE
        if slot == NOWHERE:
            _admit(kept, key)
        else:
            raise_(kept.counts, slot)
        kept.at[_SUM] += 1
        if 0 < kept.most[0] < kept.at[_SUM]:
            _age(kept)


@compiled
def _admit(kept: _Kept, key: int) -> None:
    slot = kept.at[_USED]
    if slot < len(kept.places.key_of):
        kept.at[_USED] += 1
    else:
        slot = least(kept.counts)
        kept.at[_SUM] -= count_of(kept.counts, slot)
        take(kept.counts, slot)
        kept.moves[EVICTIONS, 0] += 1
    give(kept.places, slot, key)
    add(kept.counts, slot)
    kept.moves[INSTALLS, 0] += 1


@compiled
def _age(kept: _Kept) -> None:
    halve(kept.counts)
    total = int64(0)
    for slot in range(kept.at[_USED]):
        total += count_of(kept.counts, slot)
    kept.at[_SUM] = total


LFU = Kind(
    "lfu", "LFU", "the least frequently used key leaves; counts are halved where they are 10 on average", make
)
