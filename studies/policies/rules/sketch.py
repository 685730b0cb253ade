"""How often a key was accessed lately, in a few bytes: a count-min sketch whose counters are halved.

(Cormode and Muthukrishnan, J. Algorithms 55, 2005; the halving is TinyLFU's: Einziger, Friedman and Manes,
ACM ToS 13, 2017.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from studies.policies.compiling import compiled, int64
from studies.policies.rules.hashing import mixed, reduced

ROWS = 4
_WIDTH = 4
"""Counters of a row for each key that is kept."""
SAMPLE = 10
"""Accesses between two halvings, for each key that is kept."""
MOST = 15
"""Of a counter of four bits."""


class Sketch(NamedTuple):
    """For a number of keys kept."""

    counters: Any
    """uint8[ROWS, width]"""
    at: Any
    """int64[2]: accesses since the last halving, and how many there may be."""


def sketch(size: int) -> Sketch:
    """That has counted nothing."""
    return Sketch(np.zeros((ROWS, _WIDTH * size), np.uint8), np.array([0, SAMPLE * size], np.int64))


@compiled
def note(state: Sketch, key: int) -> None:
    """Count an access."""
    counters = state.counters
    for row in range(ROWS):
        place = reduced(mixed(key, row), counters.shape[1])
        counters[row, place] += counters[row, place] < MOST
    state.at[0] += 1
    if state.at[0] == state.at[1]:
        state.at[0] = 0
        for row in range(ROWS):
            for place in range(counters.shape[1]):
                counters[row, place] >>= 1


@compiled
def estimate(state: Sketch, key: int) -> int:
    """At least how often it was counted lately, up to MOST; more where all its counters are shared."""
    found = int64(MOST)
    for row in range(ROWS):
        found = min(found, int64(state.counters[row, reduced(mixed(key, row), state.counters.shape[1])]))
    return found
