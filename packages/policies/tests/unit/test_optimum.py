"""Belady's optimum equals the best result of an exhaustive search, and no policy exceeds it."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotline_policies.log import PolicyLog, make_log
from hotline_policies.rules import POLICIES
from packages.policies.tests.unit.test_rules import SIZES, random_log, replayed
from switch_harness.effort import examples, seeds


def best(log: PolicyLog, size: int) -> int:
    """Return the largest number of scored hits of any policy that installs keys with an access only."""
    coming = log.accesses[log.training_accesses :].tolist()
    seen = sorted(set(log.accesses[: log.training_accesses].tolist()))

    @cache
    def max_hits(at: int, cached: frozenset[int]) -> int:
        if at == len(coming):
            return 0
        key = coming[at]
        after = {cached} if key in cached else {cached, *(cached - {leaver} | {key} for leaver in cached)}
        if len(cached) < size:
            after.add(cached | {key})
        return (key in cached) + max(max_hits(at + 1, each) for each in after)

    return max(max_hits(0, frozenset(cached)) for cached in combinations(seen, min(size, len(seen))))


@settings(max_examples=examples(150))
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), min_size=2, max_size=10),
    st.integers(1, 4),
)
def test_beladys_optimum_equals_an_exhaustive_search(steps: list[list[int]], size: int) -> None:
    log = make_log(steps)
    levels, _ = replayed(log, "belady", (size,), 99)
    assert int((levels == 0).sum()) == best(log, size)


@pytest.mark.parametrize("seed", seeds(10))
def test_no_policy_exceeds_beladys_optimum(seed: int) -> None:
    log = random_log(100 + seed)
    optimum, _ = replayed(log, "belady", SIZES, 5)
    for spec in POLICIES:
        for number, size in enumerate(SIZES):
            sizes = SIZES if spec.one_pass else (size,)
            levels, _ = replayed(log, spec.name, sizes, 5)
            hits = (levels[-len(optimum) :] <= (number if spec.one_pass else 0)).sum()
            assert hits <= (optimum <= number).sum(), (spec.name, size)


def test_access_times_of_a_long_log_fill_several_tiers_of_bits() -> None:
    """Use a log so long that the times need four tiers of bits."""
    chance = np.random.default_rng(3)
    log = make_log(
        [chance.choice(5_000, 500, replace=False).tolist() for _ in range(1_100)], train_share=0.01
    )
    levels, moves = replayed(log, "belady", (10, 4_000, 5_000), 99)
    assert len(levels) > 64**3
    shares = [(levels <= number).mean() for number in range(3)]
    # If all keys fit, only the first access of a key misses.
    assert shares[2] > 0.99 and shares[0] < shares[1] < shares[2]
    assert moves[1, 2] == 0 or moves[1, 2] <= 5_000
    assert (moves[0] - moves[1] <= [10, 4_000, 5_000]).all()
