"""The most updated keys of a sliding window by exact counts, selected per period as `hotline follow` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from controller.hotset.migrate import WAVE
from controller.hotset.selection import Rates, SwapRule, choose, smooth_rates
from controller.tables import SLOTS
from foundation.compiled import entry_point
from foundation.protocol.header import LANES
from hotline_policies.log import KEY, PULL, Accesses, Log
from hotline_policies.policy import Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.periodic_set import PeriodicSet, hit_or_install, periodic_policy
from nativekit.compile import int64
from nativekit.records import Ints
from nativekit.reference import as_ref

_CANDIDATE_WAVES = 2  # cold candidates beyond the free slots, in waves; a period moves one at most


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Make the policy: the first period fills the set, each later period exchanges at most a wave of keys."""
    (size,), moves = sizes, zero_moves(sizes)
    key_set = PeriodicSet(np.zeros(len(log.keys), np.uint8), moves)
    counts = np.zeros(len(log.keys), np.int64)
    rates = Rates.none()
    rule, free_slots = SwapRule(size), [SLOTS] * LANES

    def positions_of(keys: Sequence[int]) -> NDArray[np.int64]:
        return np.searchsorted(log.keys, np.array(keys, np.uint64))

    def select(hot_positions: NDArray[np.integer]) -> NDArray[np.integer]:
        nonlocal rates
        cold_positions = _find_hottest_cold_positions(
            counts, hot_positions, max(size - len(hot_positions), 0) + _CANDIDATE_WAVES * WAVE
        )
        # `log.keys` is ascending, so ascending positions give ascending keys.
        candidates = np.sort(np.append(hot_positions, cold_positions))
        rates = smooth_rates(rates, Rates(log.keys[candidates], counts[candidates].astype(np.float64)))
        change = choose(rates, log.keys[hot_positions], rule, free_slots)
        counts[:] = 0
        return np.append(
            np.setdiff1d(hot_positions, positions_of(change.leaving), assume_unique=True),
            positions_of(change.arriving),
        )

    return periodic_policy(key_set, partial(_serve, key_set, counts), select)


def _find_hottest_cold_positions(
    counts: NDArray[np.int64], hot_positions: NDArray[np.integer], limit: int
) -> NDArray[np.int64]:
    is_cold = counts > 0
    is_cold[hot_positions] = False
    cold_positions = np.flatnonzero(is_cold)
    return (
        cold_positions
        if len(cold_positions) <= limit
        else cold_positions[np.argpartition(-counts[cold_positions], limit)[:limit]]
    )


@entry_point
def _serve(key_set: PeriodicSet, counts: Ints, accesses: Accesses, levels: Levels) -> None:
    key_set = as_ref(key_set)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not hit_or_install(key_set, key)  # 0: the set has the key, 1: it has not
        counts[key] += int64(accesses[i]) < PULL  # 1 for an update: only a pull has the bit PULL


WINDOW = PolicySpec(
    "window",
    "window",
    "the k most updated keys of a sliding window, by exact counts, chosen as `hotline follow` does",
    make,
)
