"""The most updated keys of a sliding window: `hotline follow`'s own choice, at the end of each period.

Counts are exact, as the servers and the switch have them; `controller.hotset.follow.selection` smooths and
chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.hotset.follow.selection import Rates, Rule, smoothed
from controller.hotset.follow.selection import choose as selected
from controller.hotset.migrate import WAVE
from controller.tables import SLOTS
from foundation.protocol.header import LANES
from nativekit.reference import borrowed
from studies.policies.compiling import entry_point, int64
from studies.policies.log import KEY, PULL, Log
from studies.policies.policy import Kind, Policy, no_moves
from studies.policies.rules.chosen import Chosen, by_period, chosen, is_hot

_CANDIDATES = 2
"""Cold keys that are looked at, for each that may become hot in a period."""


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """The set is filled at the end of the first period; then at most a wave of keys changes places each."""
    (size,), moves = sizes, no_moves(sizes)
    kept, counts = chosen(len(log.keys), moves), np.zeros(len(log.keys), np.int64)
    rates = Rates.none()
    rule, room = Rule(size), [SLOTS] * LANES

    def at(keys: Sequence[int]) -> NDArray[np.int64]:
        return np.searchsorted(log.keys, np.array(keys, np.uint64))

    def select(hot: NDArray[np.integer]) -> NDArray[np.integer]:
        nonlocal rates
        cold = _busiest(counts, hot, max(size - len(hot), 0) + _CANDIDATES * WAVE)
        # Ascending, as keys are: positions in one order are positions in the other.
        known = np.sort(np.append(hot, cold))
        rates = smoothed(rates, Rates(log.keys[known], counts[known].astype(np.float64)))
        change = selected(rates, log.keys[hot], rule, room)
        counts[:] = 0
        return np.append(np.setdiff1d(hot, at(change.leaving), assume_unique=True), at(change.arriving))

    return by_period(kept, partial(_serve, kept, counts), select)


def _busiest(counts: NDArray[np.int64], hot: NDArray[np.integer], most: int) -> NDArray[np.int64]:
    """The keys with most counts that are not hot, in no order."""
    is_cold = counts > 0
    is_cold[hot] = False
    cold = np.flatnonzero(is_cold)
    return cold if len(cold) <= most else cold[np.argpartition(-counts[cold], most)[:most]]


@entry_point
def _serve(kept: Chosen, counts: Any, accesses: Any, levels: Any) -> None:
    kept = borrowed(kept)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not is_hot(kept, key)
        counts[key] += int64(accesses[i]) < PULL


WINDOW = Kind(
    "window",
    "window",
    "the k most updated keys of a sliding window, by exact counts, chosen as `hotline follow` does",
    make,
)
