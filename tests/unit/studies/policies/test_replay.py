"""What is counted of a policy: by hand, and by packing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hosts.hotset.worker.counting import count_rpcs
from hosts.keys import KeySpace
from studies.policies.log import PULL, log_of
from studies.policies.packets import packed, sample, without
from studies.policies.policy import EVICTIONS, INSTALLS
from studies.policies.replay import replay
from studies.policies.results import follows
from studies.policies.rules.first_come import FIRST_COME
from studies.policies.rules.lru import LRU
from studies.policies.rules.top_k import TOP_K


def test_only_the_scored_part_counts_and_the_first_part_warms() -> None:
    log = log_of([[1], [2], [1], [3], [1], [9]], learn=1 / 3)
    done = replay(log, LRU, (1, 2), period=100)
    # From step 2 on: 1 hits with two places; 3 does not; 1 hits with two; 9 does not.
    assert done.hits[:, :, 0].tolist() == [[0, 0, 0, 0], [1, 0, 1, 0]]
    assert done.accesses[:, 0].tolist() == [1, 1, 1, 1]
    assert done.moves[INSTALLS].tolist() == [4, 2] and done.moves[EVICTIONS].tolist() == [4, 2]
    assert done.served == 6
    assert replay(log, TOP_K, (1, 2), period=100).served == 4


def test_pulls_are_told_from_updates() -> None:
    log = log_of([[1], [1, 2], [1, 3], [2, 3]], learn=0.5)
    pulled = log.accesses.copy()
    pulled[[3, 5]] |= np.uint32(PULL)
    done = replay(replace(log, accesses=pulled, has_pulls=True), TOP_K, (1,), period=100)
    # Scored: pull 1 (hit), update 3, pull 2, update 3.
    assert done.hits.sum(axis=1).tolist() == [[0, 1]]
    assert done.accesses.sum(axis=0).tolist() == [2, 2]


@pytest.mark.parametrize("period", [1, 2, 3])
def test_periods_end_by_steps(period: int) -> None:
    log = log_of([[5]] * 7, learn=1 / 7)
    done = replay(log, FIRST_COME, (1,), period=period)
    # A slot is taken anew after each period that has ended, and from the first step on.
    taken = [step for step in range(1, 7) if step % period == 0]
    assert int(done.hits.sum()) == 6 - len(taken)
    assert done.moves[INSTALLS].tolist() == [len(taken)]


def test_packets_are_those_of_the_packing() -> None:
    chance = np.random.default_rng(1)
    log = log_of([chance.choice(3_000, 200, replace=False).tolist() for _ in range(100)])
    taken = sample(log)
    assert len(taken.steps) == 40 and log.learnt <= min(taken.steps) and max(taken.steps) < log.steps
    gaps = np.diff(taken.steps)
    assert gaps.min() >= 1 and gaps.max() <= 3 and len(set(gaps.tolist())) > 1
    done = replay(log, TOP_K, (100, 1_000), period=100, sampled=taken.steps)
    hot = log.keys[np.argsort(-log.counts, kind="stable")[:1_000]]
    space = KeySpace(len(log.keys), log.keys)
    batches = [log.accesses[log.starts[step] : log.starts[step + 1]].astype(np.int64) for step in taken.steps]
    for keys, found in ((hot, packed(taken, 3, log, done.found, 1)), (None, without(taken, 3))):
        rpcs, to_servers = np.mean(list(count_rpcs(space, 3, keys, batches, 200)), axis=0)
        assert [found.rpcs, found.to_servers] == pytest.approx([rpcs, to_servers])
    assert packed(taken, 3, log, done.found, 1).to_servers < packed(taken, 3, log, done.found, 0).to_servers


def test_a_control_plane_follows_what_it_can_write() -> None:
    assert follows(500, 10.0, False, 100.0) is True  # 1,000 table writes in 10 s
    assert follows(501, 10.0, False, 100.0) is False
    assert follows(10**9, 10.0, True, 100.0) is None
