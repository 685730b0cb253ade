"""A set that is chosen at the end of each period: who is new in it waits for the key's next access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.policy import EVICTIONS, INSTALLS, Policy, Serve

COLD, WANTED, HOT = 0, 1, 2
_NOW = 4
"""Bit of a key that is chosen anew."""
Select = Callable[[NDArray[np.integer]], NDArray[np.integer]]
"""Keys [n] that were chosen at the end of the last period -> those of this one: distinct, in any order."""


class Chosen(NamedTuple):
    """Of all keys."""

    state: Any
    """uint8[distinct]: COLD, WANTED or HOT."""
    moves: Any


def chosen(distinct: int, moves: NDArray[np.int64]) -> Chosen:
    """No key is."""
    return Chosen(np.zeros(distinct, np.uint8), moves)


def by_period(of: Chosen, serve: Serve, select: Select) -> Policy:
    """A policy that serves and counts, and selects from its counts at the end of each period."""
    now: NDArray[np.integer] = np.zeros(0, np.int64)

    def turn() -> None:
        nonlocal now
        before, now = now, select(now)
        _choose(of, before, now)

    return Policy(serve, of.moves, turn)


def most_counted(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys in the order of their counts, the highest first; of equals the smaller key."""
    return keys[np.lexsort((keys, -counts))]


@compiled
def is_hot(of: Chosen, key: int) -> bool:
    """Whether a key that is accessed is there; from then on it is, if it is wanted."""
    found = int64(of.state[key])
    if found == WANTED:
        of.state[key] = HOT
        of.moves[INSTALLS, 0] += 1
    return found == HOT


@entry_point
def _choose(of: Chosen, before: Any, now: Any) -> None:
    of = borrowed(of)
    for key in now:
        of.state[key] |= _NOW
    for key in before:
        if of.state[key] < _NOW:
            of.moves[EVICTIONS, 0] += of.state[key] == HOT
            of.state[key] = COLD
    for key in now:
        of.state[key] = max(of.state[key] & ~_NOW, WANTED)
