"""The top k by what HeavyKeeper counts: two hashed rows of cells, where a stranger's access decays a count.

(Yang et al., IEEE/ACM ToN 27, 2019.) A count of c loses 1 with probability 1.08^-c; at 0 the stranger has it.
Cells have whole keys, not fingerprints: whoever reads them at the end of a period must know which keys to
install. There are two cells for each key that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.log import KEY, Log
from studies.policies.policy import Kind, Policy, no_moves
from studies.policies.rules.chosen import Chosen, by_period, chosen, is_hot, most_counted
from studies.policies.rules.hashing import BITS, mixed, reduced

ROWS = 2
BASE = 1.08
_SEED, _DICE = 18, 32
_DICE_SIDES = 1 << BITS
DECAYS = np.array([int(_DICE_SIDES * BASE**-count) for count in range(256)], np.int64)
"""In parts of 2^31, by count; beyond them no count decays."""


class _Cells(NamedTuple):
    key: Any
    """int64[ROWS, cells]"""
    count: Any
    """int64[ROWS, cells]: 0 where a cell is free."""
    decays: Any
    rolled: Any
    """int64[1]: how often the dice were."""


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Cells are cleared with each period; of equals the smaller key is chosen."""
    (size,), moves = sizes, no_moves(sizes)
    kept = chosen(len(log.keys), moves)
    shape = (ROWS, size)
    cells = _Cells(np.zeros(shape, np.int64), np.zeros(shape, np.int64), DECAYS, np.zeros(1, np.int64))

    def select(before: NDArray[np.integer]) -> NDArray[np.int64]:
        live = cells.count > 0
        ranked = most_counted(cells.key[live], cells.count[live])
        _, first = np.unique(ranked, return_index=True)
        cells.count[:] = 0
        return ranked[np.sort(first)[:size]]

    return by_period(kept, partial(_serve, kept, cells), select)


@entry_point
def _serve(kept: Chosen, cells: _Cells, accesses: Any, levels: Any) -> None:
    kept = borrowed(kept)
    cells = borrowed(cells)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not is_hot(kept, key)
        for row in range(ROWS):
            _count(cells, row, reduced(mixed(key, _SEED + row), cells.key.shape[1]), key)


@compiled
def _count(cells: _Cells, row: int, place: int, key: int) -> None:
    count = cells.count[row, place]
    if count > 0 and cells.key[row, place] == key:
        cells.count[row, place] = count + 1
        return
    if count > 0:
        cells.rolled[0] += 1
        dice = mixed(cells.rolled[0], _DICE)
        if count >= len(cells.decays) or dice >= cells.decays[count]:
            return
        count -= 1
        cells.count[row, place] = count
    if count == 0:
        cells.key[row, place] = key
        cells.count[row, place] = 1


HEAVY_KEEPER = Kind(
    "heavykeeper",
    "HeavyKeeper",
    "the top k of a period by 2 k hashed cells, whose counts other keys decay",
    make,
)
