"""Each policy against its reference implementation, and cachetools, on random logs: every access and move."""

from __future__ import annotations

from typing import Any

import cachetools
import numpy as np
import pytest
from numpy.typing import NDArray

from hotline_policies.log import PolicyLog, make_log
from hotline_policies.rules import BY_NAME, POLICIES, frequency, recency
from packages.policies.tests.unit.reference_policies import REFERENCES
from switch_harness.effort import seeds

SIZES = (1, 2, 3, 7, 20, 50)


def random_log(seed: int) -> PolicyLog:
    """Make a log of skewed keys whose ranks change half-way."""
    chance = np.random.default_rng(seed)
    keys = chance.permutation(1_000)[: chance.integers(30, 150)] * 977
    weights = 1 / np.arange(1, len(keys) + 1) ** chance.uniform(0, 1.5)
    steps = []
    for step in range(80):
        if step == 40:
            chance.shuffle(keys)
        size = int(chance.integers(1, 20))
        steps.append(chance.choice(keys, size, replace=False, p=weights / weights.sum()).tolist())
    return make_log(steps, train_share=float(chance.choice([0.25, 0.5, 0.75])))


def replayed(
    log: PolicyLog, name: str, sizes: tuple[int, ...], period: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the levels of all accesses that a policy serves, and its moves."""
    spec = BY_NAME[name]
    policy, levels = spec.make(log, sizes), []
    for first, last in log.spans(0 if spec.warms_up else log.training_steps, period):
        accesses = np.array(log.accesses[log.starts[first] : log.starts[last]])
        levels.append(np.full(len(accesses), 99, np.uint8))
        policy.serve(accesses, levels[-1])
        if last % period == 0:
            policy.end_period()
    return np.concatenate(levels), policy.moves


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", REFERENCES)
def test_hits_and_moves_equal_the_reference(name: str, seed: int) -> None:
    log, spec, period = random_log(seed), BY_NAME[name], 9
    for sizes in [SIZES] if spec.one_pass else [(size,) for size in SIZES]:
        levels, moves = replayed(log, name, sizes, period)
        for number, size in enumerate(sizes):
            reference, hits = REFERENCES[name](log, size), []
            for step in range(0 if spec.warms_up else log.training_steps, log.steps):
                accesses = log.accesses[log.starts[step] : log.starts[step + 1]]
                hits += [reference.serve(int(key)) for key in accesses]
                if (step + 1) % period == 0:
                    reference.end_period()
            assert (levels <= number).tolist() == hits, (name, size)
            assert moves[:, number].tolist() == [reference.installs, reference.evictions], (name, size)


def test_random_keys_are_as_many_as_are_kept_and_were_seen() -> None:
    log = random_log(1)
    levels, moves = replayed(log, "random", SIZES, 9)
    seen = set(log.accesses[: log.training_accesses].tolist())
    scored = log.accesses[log.training_accesses :].tolist()
    for number, size in enumerate(SIZES):
        hit = {key for key, level in zip(scored, levels, strict=True) if level <= number}
        missed = {key for key, level in zip(scored, levels, strict=True) if level > number}
        assert hit <= seen and not hit & missed and len(hit) <= size
    assert not moves.any()
    every, _ = replayed(log, "random", (len(seen),), 9)
    assert {key for key, level in zip(scored, every, strict=True) if level == 0} == seen & set(scored)


def test_randomly_chosen_keys_are_no_hotter_than_the_remaining_keys() -> None:
    """About a tenth of the keys selected from 1,000 are among the hottest 100."""
    log = make_log([[key for key in range(1_000) if step % (1 + key // 100) == 0] for step in range(40)])
    order = np.argsort(-log.counts, kind="stable")[:100]
    levels, _ = replayed(log, "random", (300,), 9)
    selected = {
        int(key)
        for key, level in zip(log.accesses[log.training_accesses :], levels, strict=True)
        if level == 0
    }
    assert 15 <= len(selected & set(order.tolist())) <= 45  # 30 expected; five standard deviations are 22


def test_only_random_has_no_reference() -> None:
    assert {spec.name for spec in POLICIES} - set(REFERENCES) == {"random"}


def hits_of_library(cache: Any, keys: list[int]) -> list[bool]:
    hits = []
    for key in keys:
        hits.append(key in cache)
        if hits[-1]:
            cache[key]  # which is an access
        else:
            cache[key] = True
    return hits


@pytest.mark.parametrize("seed", seeds(10))
def test_lru_and_lfu_have_the_hits_of_cachetools(seed: int) -> None:
    log = random_log(200 + seed)
    levels = np.empty(len(log.accesses), np.uint8)
    recency.make_lru(log, SIZES).serve(log.accesses, levels)
    for number, size in enumerate(SIZES):
        expected = hits_of_library(cachetools.LRUCache(size), log.accesses.tolist())
        assert (levels <= number).tolist() == expected
    for size in SIZES:
        frequency.make_lfu(log, (size,), max_mean=0).serve(log.accesses, levels)
        assert (levels == 0).tolist() == hits_of_library(cachetools.LFUCache(size), log.accesses.tolist())
