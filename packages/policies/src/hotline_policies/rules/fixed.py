"""Sets that never change: the most updated keys, and random keys, of the training part (Pan et al. §4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import Levels, Policy, PolicySpec, zero_moves
from nativekit.compile import int64
from nativekit.records import Octets

_SEED = 1


def make_top_k(log: Log, sizes: Sequence[int]) -> Policy:
    """Make sets of the most updated keys, the smaller key first where counts are equal."""
    order = np.argsort(-log.update_counts, kind="stable")
    return _make_fixed_policy(log, order[log.update_counts[order] > 0], sizes)


def make_random(log: Log, sizes: Sequence[int]) -> Policy:
    order = np.random.default_rng(_SEED).permutation(np.flatnonzero(log.counts))
    return _make_fixed_policy(log, order, sizes)


def _make_fixed_policy(log: Log, order: NDArray[np.integer], sizes: Sequence[int]) -> Policy:
    """Make nested sets: each size has the first keys in this order, so a key's rank gives its level."""
    level_of = np.full(len(log.keys), len(sizes), np.uint8)
    ranks = np.arange(min(len(order), sizes[-1]))
    level_of[order[: len(ranks)]] = np.searchsorted(sizes, ranks, side="right")
    return Policy(partial(_look_up, level_of), zero_moves(sizes))


@entry_point
def _look_up(level_of: Octets, accesses: Accesses, levels: Levels) -> None:
    for i in range(len(accesses)):
        levels[i] = level_of[int64(accesses[i]) & KEY]


TOP_K = PolicySpec(
    "top-k",
    "top-k",
    "a fixed set: the k most updated keys of the first part of the log, as `hotline load` moves them in",
    make_top_k,
    one_pass=True,
    warms_up=False,
)
RANDOM = PolicySpec(
    "random",
    "random",
    "random keys of the first part of the log, fixed",
    make_random,
    one_pass=True,
    warms_up=False,
)
