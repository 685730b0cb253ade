"""Each policy against its plain twin, on random logs: every access, every move."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from studies.policies.log import Log, log_of
from studies.policies.rules.all import BY_NAME, KINDS
from switch_harness.effort import seeds
from tests.unit.studies.policies.twins import TWINS

SIZES = (1, 2, 3, 7, 20, 50)


def random_log(seed: int) -> Log:
    """Skewed keys in steps of several, which drift half-way."""
    chance = np.random.default_rng(seed)
    keys = chance.permutation(1_000)[: chance.integers(30, 150)] * 977
    weights = 1 / np.arange(1, len(keys) + 1) ** chance.uniform(0, 1.5)
    steps = []
    for step in range(80):
        if step == 40:
            chance.shuffle(keys)
        size = int(chance.integers(1, 20))
        steps.append(chance.choice(keys, size, replace=False, p=weights / weights.sum()).tolist())
    return log_of(steps, learn=float(chance.choice([0.25, 0.5, 0.75])))


def served(
    log: Log, name: str, sizes: tuple[int, ...], period: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Levels of all accesses that a policy serves, and its moves."""
    kind = BY_NAME[name]
    policy, levels = kind.make(log, sizes), []
    for first, last in log.spans(0 if kind.warms else log.learnt, period):
        accesses = np.array(log.accesses[log.starts[first] : log.starts[last]])
        levels.append(np.full(len(accesses), 99, np.uint8))
        policy.serve(accesses, levels[-1])
        if last % period == 0:
            policy.turn()
    return np.concatenate(levels), policy.moves


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", TWINS)
def test_hits_and_moves_are_the_twins(name: str, seed: int) -> None:
    log, kind, period = random_log(seed), BY_NAME[name], 9
    for sizes in [SIZES] if kind.one_pass else [(size,) for size in SIZES]:
        levels, moves = served(log, name, sizes, period)
        for number, size in enumerate(sizes):
            twin, hits = TWINS[name](log, size), []
            for step in range(0 if kind.warms else log.learnt, log.steps):
                accesses = log.accesses[log.starts[step] : log.starts[step + 1]]
                hits += [twin.serve(int(key)) for key in accesses]
                if (step + 1) % period == 0:
                    twin.turn()
            assert (levels <= number).tolist() == hits, (name, size)
            assert moves[:, number].tolist() == [twin.installs, twin.evictions], (name, size)


def test_random_keys_are_as_many_as_are_kept_and_were_seen() -> None:
    log = random_log(1)
    levels, moves = served(log, "random", SIZES, 9)
    seen = set(log.accesses[: log.split].tolist())
    scored = log.accesses[log.split :].tolist()
    for number, size in enumerate(SIZES):
        hit = {key for key, level in zip(scored, levels, strict=True) if level <= number}
        missed = {key for key, level in zip(scored, levels, strict=True) if level > number}
        assert hit <= seen and not hit & missed and len(hit) <= size
    assert not moves.any()
    every, _ = served(log, "random", (len(seen),), 9)
    assert {key for key, level in zip(scored, every, strict=True) if level == 0} == seen & set(scored)


def test_random_keys_are_no_hotter_than_others() -> None:
    """Of 1,000 keys, the hottest 100 are a tenth of those that are chosen, but for chance."""
    log = log_of([[key for key in range(1_000) if step % (1 + key // 100) == 0] for step in range(40)])
    order = np.argsort(-log.counts, kind="stable")[:100]
    levels, _ = served(log, "random", (300,), 9)
    chosen = {int(key) for key, level in zip(log.accesses[log.split :], levels, strict=True) if level == 0}
    assert 15 <= len(chosen & set(order.tolist())) <= 45  # 30 expected; five standard deviations are 22


def test_a_policy_that_has_no_twin_is_random() -> None:
    assert {kind.name for kind in KINDS} - set(TWINS) == {"random"}
