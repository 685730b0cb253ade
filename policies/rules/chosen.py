"""A set that is chosen at the end of each period: who is new in it waits for the key's next access."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from native.reference import borrowed
from policies.compiling import compiled, entry_point, int64
from policies.policy import EVICTIONS, INSTALLS

COLD, WANTED, HOT = 0, 1, 2


class Chosen(NamedTuple):
    """Of all keys."""

    state: Any
    """uint8[distinct]: COLD, WANTED or HOT."""
    moves: Any


def chosen(distinct: int, moves: NDArray[np.int64]) -> Chosen:
    """No key is."""
    return Chosen(np.zeros(distinct, np.uint8), moves)


@compiled
def is_hot(of: Chosen, key: int) -> bool:
    """Whether a key that is accessed is there; from then on it is, if it is wanted."""
    found = int64(of.state[key])
    if found == WANTED:
        of.state[key] = HOT
        of.moves[INSTALLS, 0] += 1
    return found == HOT


def choose(of: Chosen, before: NDArray[np.integer], now: NDArray[np.integer]) -> None:
    """Let distinct keys be chosen instead of those `before`."""
    _choose(of, before, now)


@entry_point
def _choose(of: Chosen, before: Any, now: Any) -> None:
    of = borrowed(of)
    for key in now:
        of.state[key] |= 4
    for key in before:
        if of.state[key] < 4:
            of.moves[EVICTIONS, 0] += of.state[key] == HOT
            of.state[key] = COLD
    for key in now:
        of.state[key] = max(of.state[key] & 3, WANTED)
