"""A set of hot keys selected after each period; a new key is pending until an access brings its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.policy import EVICTIONS, INSTALLS, Policy, Serve
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets
from nativekit.reference import as_ref

COLD, PENDING, HOT = 0, 1, 2
_SELECTED = 4  # flag that is added to the states of newly selected keys while a selection is applied
Select = Callable[[NDArray[np.integer]], NDArray[np.integer]]
"""Map the previous selection, keys[n], to the next selection: distinct keys in any order."""


class PeriodicSet(NamedTuple):
    state: Octets  # uint8[distinct]: COLD, PENDING or HOT
    moves: Ints


def periodic_policy(key_set: PeriodicSet, serve: Serve, select: Select) -> Policy:
    """Return a policy that counts accesses, and selects keys by their counts at the end of each period."""
    selected: NDArray[np.integer] = np.zeros(0, np.int64)

    def end_period() -> None:
        nonlocal selected
        previous, selected = selected, select(selected)
        _apply_selection(key_set, previous, selected)

    return Policy(serve, key_set.moves, end_period)


def rank_by_count(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return keys[np.lexsort((keys, -counts))]


@compiled
def hit_or_install(key_set: PeriodicSet, key: int) -> bool:
    """Return whether an accessed key is hot, and install it if it is pending."""
    status = int64(key_set.state[key])
    if status == PENDING:
        key_set.state[key] = HOT
        key_set.moves[INSTALLS, 0] += 1
    return status == HOT


@entry_point
def _apply_selection(
    key_set: PeriodicSet, previous: NDArray[np.integer], selected: NDArray[np.integer]
) -> None:
    key_set = as_ref(key_set)
    for key in selected:
        key_set.state[key] |= _SELECTED
    for key in previous:
        if key_set.state[key] < _SELECTED:
            key_set.moves[EVICTIONS, 0] += key_set.state[key] == HOT
            key_set.state[key] = COLD
    # Remove the flag: a hot key stays hot, any other key is pending.
    for key in selected:
        key_set.state[key] = max(key_set.state[key] & ~_SELECTED, PENDING)
