"""The top k by HeavyKeeper's counts: two hashed rows of cells, where accesses of other keys decay a count.

(Yang et al., IEEE/ACM ToN 27, 2019.) Another key's access decrements a count c with probability 1.08^-c, and
takes over the cell at 0. Cells store whole keys, not fingerprints, because the control plane that reads
them at the end of a period installs these keys. There are two cells for each key that the set may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.periodic_set import PeriodicSet, hit_or_install, periodic_policy, rank_by_count
from hotline_policies.rules.sketch import HASH_BITS, hash_key, to_bucket
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

ROWS = 2
BASE = 1.08
_SEED, _DRAW_SEED = 18, 32  # seeds of hashes: of cells (one per row), and of random draws
_HASHES = 1 << HASH_BITS
DECAYS = np.array([int(_HASHES * BASE**-count) for count in range(256)], np.int64)
"""Probability that a count decays, by count, in units of 2^-31; larger counts do not decay."""


class _Cells(NamedTuple):
    keys: Ints  # int64[ROWS, cells]: key of each cell
    counts: Ints  # int64[ROWS, cells]: 0 in a free cell
    decays: Ints
    draws: Ints  # int64[1]: number of random draws so far


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Make cells that are cleared with each period; among equal counts the smaller key is selected."""
    (size,), moves = sizes, zero_moves(sizes)
    key_set = PeriodicSet(np.zeros(len(log.keys), np.uint8), moves)
    shape = (ROWS, size)
    cells = _Cells(np.zeros(shape, np.int64), np.zeros(shape, np.int64), DECAYS, np.zeros(1, np.int64))

    def select(previous: NDArray[np.integer]) -> NDArray[np.int64]:
        is_used = cells.counts > 0
        ranked = rank_by_count(cells.keys[is_used], cells.counts[is_used])
        _, first_ranks = np.unique(ranked, return_index=True)
        cells.counts[:] = 0
        return ranked[np.sort(first_ranks)[:size]]

    return periodic_policy(key_set, partial(_serve, key_set, cells), select)


@entry_point
def _serve(key_set: PeriodicSet, cells: _Cells, accesses: Accesses, levels: Levels) -> None:
    key_set = as_ref(key_set)
    cells = as_ref(cells)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not hit_or_install(key_set, key)  # 0: the set has the key, 1: it has not
        for row in range(ROWS):
            _count_access(cells, row, to_bucket(hash_key(key, _SEED + row), cells.keys.shape[1]), key)


@compiled
def _count_access(cells: _Cells, row: int, place: int, key: int) -> None:
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
    make,
)
