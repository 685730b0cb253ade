"""Sets of keys that are selected at once: for the whole log, or after each period, also by any rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.hotset.quotas import ALL_SLOTS, first_per_lane
from controller.hotset.rules import MAX_ORDERED, WINDOW, HotSetRule, PeriodUpdates, run_rule
from controller.hotset.selection import WindowRule, cold_limit
from foundation.compiled import entry_point
from foundation.protocol.codec import Keys
from hotline_policies.log import KEY, PULL, Accesses, PolicyLog
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, Serve, zero_moves
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets
from nativekit.reference import as_ref

# A set of hot keys selected after each period; a new key is pending until an access brings its value.

LOAD_SUFFIX, FOLLOW_SUFFIX = "-load", "-follow"
"""Ends of the names of the two policies that a rule has: selected once, and after each period."""
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

    return Policy(serve, key_set.moves, end_period, held_keys=lambda: selected)


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


# Sets that never change: the most updated keys, and random keys, of the training part (Pan et al. §4).

_SEED = 1


def make_top_k(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    """Make sets of the most updated keys, the smaller key first where counts are equal."""
    order = np.argsort(-log.update_counts, kind="stable")
    return _make_fixed_policy(log, order[log.update_counts[order] > 0], sizes)


def make_random(log: PolicyLog, sizes: Sequence[int]) -> Policy:
    order = np.random.default_rng(_SEED).permutation(np.flatnonzero(log.counts))
    return _make_fixed_policy(log, order, sizes)


def _make_fixed_policy(log: PolicyLog, order: NDArray[np.integer], sizes: Sequence[int]) -> Policy:
    """Make nested sets: each size has the first keys in this order, so a key's rank gives its level."""
    level_of = np.full(len(log.keys), len(sizes), np.uint8)
    ranks = np.arange(min(len(order), sizes[-1]))
    level_of[order[: len(ranks)]] = np.searchsorted(sizes, ranks, side="right")
    return Policy(
        partial(_look_up, level_of), zero_moves(sizes), held_keys=lambda: np.flatnonzero(level_of == 0)
    )


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


# Sets that a rule of live hot sets selects, from what the rule would see of a live run.


def spec_of_load(reference: str, rule: HotSetRule) -> PolicySpec:
    """Return the policy of a set that a rule selects from the training part, as at the beginning of a run."""
    return PolicySpec(
        f"{reference}{LOAD_SUFFIX}",
        f"{reference}, loaded",
        f"a fixed set, which rule {reference} chooses from the first part of the log, as a run loads it",
        partial(_make_loaded, reference, rule),
        warms_up=False,
        check=partial(run_rule, reference, rule),
        stand_in=TOP_K,
    )


def spec_of_follow(reference: str, rule: HotSetRule) -> PolicySpec:
    """Return the policy of a set that a rule selects after each period, as by `hotline follow`."""
    return PolicySpec(
        f"{reference}{FOLLOW_SUFFIX}",
        f"{reference}, followed",
        f"the set that rule {reference} chooses after each period, as `hotline follow` moves it in",
        partial(_make_followed, reference, rule),
        check=partial(run_rule, reference, rule),
        stand_in=WINDOW_POLICY,
    )


def _make_loaded(reference: str, rule: HotSetRule, log: PolicyLog, sizes: Sequence[int]) -> Policy:
    (size,) = sizes
    is_seen = log.update_counts > 0
    keys = log.keys[is_seen]
    order = None
    if log.training_accesses <= MAX_ORDERED:
        accesses = np.array(log.accesses[: log.training_accesses])
        index_of = np.cumsum(is_seen) - 1  # of each key of the log, in `keys`
        order = index_of[accesses[accesses < PULL]].astype(np.uint32)
    period = PeriodUpdates(keys, log.update_counts[is_seen], np.empty(0, np.uint64), order)
    chosen = run_rule(reference, rule, size).choose(period)
    return _make_fixed_policy(log, np.searchsorted(log.keys, chosen), sizes)


def _make_followed(reference: str, rule: HotSetRule, log: PolicyLog, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    key_set = PeriodicSet(np.zeros(len(log.keys), np.uint8), moves)
    counts = np.zeros(len(log.keys), np.int64)
    running_rule = run_rule(reference, rule, size)

    def select(hot: NDArray[np.integer]) -> NDArray[np.integer]:
        cold = _find_hottest_cold(counts, hot, cold_limit(size, len(hot)))
        # `log.keys` is ascending, so ascending positions give ascending keys.
        seen = np.sort(np.append(hot, cold))
        chosen = running_rule.choose(PeriodUpdates(log.keys[seen], counts[seen], log.keys[hot]))
        counts[:] = 0
        return np.searchsorted(log.keys, _fitting_keys(chosen))

    return periodic_policy(key_set, partial(_serve_and_count, key_set, counts), select)


def _fitting_keys(keys: Keys) -> Keys:
    return np.array(first_per_lane(keys.tolist(), ALL_SLOTS), np.uint64)


def _find_hottest_cold(counts: NDArray[np.int64], hot: NDArray[np.integer], limit: int) -> NDArray[np.int64]:
    is_cold = counts > 0
    is_cold[hot] = False
    cold = np.flatnonzero(is_cold)
    return cold if len(cold) <= limit else cold[np.argpartition(-counts[cold], limit)[:limit]]


@entry_point
def _serve_and_count(key_set: PeriodicSet, counts: Ints, accesses: Accesses, levels: Levels) -> None:
    key_set = as_ref(key_set)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        levels[i] = not hit_or_install(key_set, key)  # 0: the set has the key, 1: it has not
        counts[key] += int64(accesses[i]) < PULL  # 1 for an update: only a pull has the bit PULL


WINDOW_POLICY = PolicySpec(
    WINDOW,
    "window",
    "the k most updated keys of a sliding window, by exact counts, chosen as `hotline follow` does",
    partial(_make_followed, WINDOW, WindowRule),
)
