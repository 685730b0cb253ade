"""The counts of a replay against counts by hand, and its packets against the packing of agents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hosts.keys import KeySpace
from hotline_agents.hotset.worker.counting import count_rpcs
from hotline_policies.log import PULL, make_log
from hotline_policies.packets import rpcs_with_policy, rpcs_without_offload, sample_steps
from hotline_policies.policy import EVICTIONS, INSTALLS
from hotline_policies.replay import replay
from hotline_policies.results import can_follow
from hotline_policies.rules.hashed import FIRST_COME
from hotline_policies.rules.recency import LRU
from hotline_policies.rules.selected import TOP_K


def test_only_the_scored_part_counts_and_the_first_part_warms() -> None:
    log = make_log([[1], [2], [1], [3], [1], [9]], train_share=1 / 3)
    done = replay(log, LRU, (1, 2), period=100)
    # From step 2 on: 1 hits with two places; 3 does not; 1 hits with two; 9 does not.
    assert done.hits[:, :, 0].tolist() == [[0, 0, 0, 0], [1, 0, 1, 0]]
    assert done.accesses[:, 0].tolist() == [1, 1, 1, 1]
    assert done.moves[INSTALLS].tolist() == [4, 2] and done.moves[EVICTIONS].tolist() == [4, 2]
    assert done.accesses_replayed == 6
    assert replay(log, TOP_K, (1, 2), period=100).accesses_replayed == 4


def test_pulls_and_updates_are_counted_separately() -> None:
    log = make_log([[1], [1, 2], [1, 3], [2, 3]], train_share=0.5)
    pulled = log.accesses.copy()
    pulled[[3, 5]] |= np.uint32(PULL)
    done = replay(replace(log, accesses=pulled, has_pulls=True), TOP_K, (1,), period=100)
    # Scored: pull 1 (hit), update 3, pull 2, update 3.
    assert done.hits.sum(axis=1).tolist() == [[0, 1]]
    assert done.accesses.sum(axis=0).tolist() == [2, 2]


def test_top_k_keys_are_the_most_updated_not_the_most_pulled() -> None:
    log = make_log([[1], [1], [1], [2], [2], [2]], train_share=5 / 6)
    pulled = log.accesses.copy()
    pulled[[0, 1]] |= np.uint32(PULL)
    done = replay(replace(log, accesses=pulled, has_pulls=True), TOP_K, (1,), period=100)
    assert done.hits.sum(axis=1).tolist() == [[1, 0]]


@pytest.mark.parametrize("period", [1, 2, 3])
def test_periods_end_by_steps(period: int) -> None:
    log = make_log([[5]] * 7, train_share=1 / 7)
    done = replay(log, FIRST_COME, (1,), period=period)
    # A slot is taken anew after each period that has ended, and from the first step on.
    sampled = [step for step in range(1, 7) if step % period == 0]
    assert int(done.hits.sum()) == 6 - len(sampled)
    assert done.moves[INSTALLS].tolist() == [len(sampled)]


def test_packets_of_a_replay_equal_the_packing_of_agents() -> None:
    chance = np.random.default_rng(1)
    log = make_log([chance.choice(3_000, 200, replace=False).tolist() for _ in range(100)])
    sampled = sample_steps(log, np.ones(len(log.keys), np.int64))
    assert len(sampled.steps) == 40
    assert log.training_steps <= min(sampled.steps) and max(sampled.steps) < log.steps
    gaps = np.diff(sampled.steps)
    assert gaps.min() >= 1 and gaps.max() <= 3 and len(set(gaps.tolist())) > 1
    done = replay(log, TOP_K, (100, 1_000), period=100, sampled_steps=sampled.steps)
    hot = log.keys[np.argsort(-log.counts, kind="stable")[:1_000]]
    space = KeySpace(len(log.keys), log.keys)
    batches = [
        log.accesses[log.starts[step] : log.starts[step + 1]].astype(np.int64) for step in sampled.steps
    ]
    for keys, found in (
        (hot, rpcs_with_policy(sampled, 3, log, done.sampled_levels, 1)),
        (None, rpcs_without_offload(sampled, 3)),
    ):
        rpcs, to_servers = np.mean(list(count_rpcs(space, 3, keys, batches, 200)), axis=0)
        assert [found.rpcs, found.to_servers] == pytest.approx([rpcs, to_servers])
    small, large = (rpcs_with_policy(sampled, 3, log, done.sampled_levels, at) for at in (0, 1))
    assert large.to_servers < small.to_servers


def test_a_control_plane_can_follow_up_to_its_rate_of_writes() -> None:
    assert can_follow(500, 10.0, False, 100.0) is True  # 1,000 table writes in 10 s
    assert can_follow(501, 10.0, False, 100.0) is False
    assert can_follow(10**9, 10.0, True, 100.0) is None
