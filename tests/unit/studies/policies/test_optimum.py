"""Belady's optimum: what is best of all that can be done, tried out; and nothing exceeds it."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.policies.log import Log, log_of
from studies.policies.rules.all import KINDS
from switch_harness.effort import examples, seeds
from tests.unit.studies.policies.test_rules import SIZES, random_log, served


def best(log: Log, size: int) -> int:
    """Most hits in the scored part of all that keep up to `size` keys and take one with its access only."""
    coming = log.accesses[log.split :].tolist()
    seen = sorted(set(log.accesses[: log.split].tolist()))

    @cache
    def most(at: int, kept: frozenset[int]) -> int:
        if at == len(coming):
            return 0
        key = coming[at]
        after = {kept} if key in kept else {kept, *(kept - {leaver} | {key} for leaver in kept)}
        if len(kept) < size:
            after.add(kept | {key})
        return (key in kept) + max(most(at + 1, each) for each in after)

    return max(most(0, frozenset(kept)) for kept in combinations(seen, min(size, len(seen))))


@settings(max_examples=examples(150))
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), min_size=2, max_size=10),
    st.integers(1, 4),
)
def test_it_is_the_best_of_all_that_can_be_tried(steps: list[list[int]], size: int) -> None:
    log = log_of(steps)
    levels, _ = served(log, "belady", (size,), 99)
    assert int((levels == 0).sum()) == best(log, size)


@pytest.mark.parametrize("seed", seeds(10))
def test_no_policy_exceeds_it(seed: int) -> None:
    log = random_log(100 + seed)
    optimum, _ = served(log, "belady", SIZES, 5)
    for kind in KINDS:
        for number, size in enumerate(SIZES):
            sizes = SIZES if kind.one_pass else (size,)
            levels, _ = served(log, kind.name, sizes, 5)
            hits = (levels[-len(optimum) :] <= (number if kind.one_pass else 0)).sum()
            assert hits <= (optimum <= number).sum(), (kind.name, size)


def test_many_words_of_times() -> None:
    """As much as needs four floors of bits."""
    chance = np.random.default_rng(3)
    log = log_of([chance.choice(5_000, 500, replace=False).tolist() for _ in range(1_100)], learn=0.01)
    levels, moves = served(log, "belady", (10, 4_000, 5_000), 99)
    assert len(levels) > 64**3
    shares = [(levels <= number).mean() for number in range(3)]
    # With all keys kept only those miss that have not been seen, of which all come soon.
    assert shares[2] > 0.99 and shares[0] < shares[1] < shares[2]
    assert moves[1, 2] == 0 or moves[1, 2] <= 5_000
    assert (moves[0] - moves[1] <= [10, 4_000, 5_000]).all()
