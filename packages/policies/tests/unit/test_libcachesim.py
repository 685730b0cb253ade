"""Policies against libCacheSim: the same hits on three logs, and LRU at least as fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotline_policies.log import PolicyLog
from hotline_policies.miss_ratio.curve import miss_ratios
from hotline_policies.policy import Policy
from hotline_policies.rules import BY_NAME, frequency, future, recency
from tests.harness.access_logs import oracle_general, read
from tests.harness.wheels import movielens

libcachesim = pytest.importorskip("libcachesim", reason="there is no wheel of it for this Python")

Make = Callable[[PolicyLog, Sequence[int]], Policy]
POLICIES: dict[str, tuple[Make, Any]] = {
    "lru": (BY_NAME["lru"].make, libcachesim.LRU),
    "lfu": (partial(frequency.make_lfu, max_mean=0), libcachesim.LFU),
    "fifo": (BY_NAME["fifo"].make, libcachesim.FIFO),
    "s3-fifo": (BY_NAME["s3-fifo"].make, libcachesim.S3FIFO),
    "sieve": (BY_NAME["sieve"].make, libcachesim.Sieve),
    "arc": (BY_NAME["arc"].make, libcachesim.ARC),
    "lirs": (partial(recency.make_lirs, has_demotions=True), libcachesim.LIRS),
    "belady": (partial(future.make_belady, may_bypass=False), libcachesim.Belady),
}
SIZES = {"movielens": (100, 500), "small": (20, 100, 200, 500), "large": (20, 200)}
"""Sizes by log; all keys of the small one fit into the largest."""
HASH_POWER = 12
"""libCacheSim's hash tables begin with 2^12 buckets and grow; clearing 2^24, its default, takes long."""


def generated(keys: int, length: int, seed: int) -> list[int]:
    """Return accesses of skewed keys that change at half of the log."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, keys + 1)
    ranks = random.choice(keys, length, p=weights / weights.sum())
    ranks[length // 2 :] = (ranks[length // 2 :] + keys // 3) % keys
    keys_of: list[int] = ((ranks + 1) * 7919).tolist()
    return keys_of


def traces(folder: Path, name: str) -> tuple[PolicyLog, Path]:
    """Return a log whose steps are single accesses, and the same in libCacheSim's format."""
    if name == "movielens":
        steps = read(folder, movielens(), columns="key=item_id,iteration=timestamp,worker=user_id")
        objects = steps.keys[steps.accesses].tolist()
    else:
        objects = generated(*{"small": (300, 20_000, 1), "large": (5_000, 50_000, 2)}[name])
    path = folder / f"{name}.oracleGeneral"
    path.write_bytes(oracle_general(objects))
    found = read(folder, path)
    return PolicyLog(**vars(found), training_steps=0), path


def hits_of(path: Path, cache: Any) -> int:
    parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters)
    misses: float = cache.process_trace(reader)[0]
    return round((1 - misses) * path.stat().st_size / 24)


@pytest.mark.parametrize("name", ["movielens", "small", "large"])
def test_each_policy_has_as_many_hits_as_libcachesim(tmp_path: Path, name: str) -> None:
    log, path = traces(tmp_path, name)
    for policy, (make, theirs) in POLICIES.items():
        for size in SIZES[name]:
            levels = np.empty(len(log.accesses), np.uint8)
            make(log, (size,)).serve(np.array(log.accesses), levels)
            expected = hits_of(path, theirs(cache_size=size, hashpower=HASH_POWER))
            assert int((levels == 0).sum()) == expected, (policy, size)


def test_the_miss_ratio_curve_equals_libcachesims_hits(tmp_path: Path) -> None:
    _, path = traces(tmp_path, "movielens")
    steps = read(tmp_path, path)
    (curve,) = miss_ratios(steps, None, lambda done, total: None).curves
    for size in [size for size in curve.sizes if size in (1, 10, 100, 1_682)]:
        expected = hits_of(path, libcachesim.LRU(cache_size=size, hashpower=HASH_POWER))
        assert curve.at(size) == pytest.approx(1 - expected / len(steps.accesses))


def test_hits_of_the_second_half_of_movielens_equal_libcachesims(tmp_path: Path) -> None:
    """These are the numbers that libCacheSim gave when the log was first compared."""
    log, _ = traces(tmp_path, "movielens")
    levels = np.empty(len(log.accesses), np.uint8)
    BY_NAME["lru"].make(log, (100, 200, 500)).serve(np.array(log.accesses), levels)
    found = [int((levels[50_000:] <= number).sum()) for number in range(3)]
    assert found == [5_261, 12_209, 30_664]


def test_lru_is_at_least_as_fast(tmp_path: Path) -> None:
    """Compare CPU times of one thread, so that a busy machine changes neither."""
    objects = generated(100_000, 400_000, 3)
    path = tmp_path / "log.oracleGeneral"
    path.write_bytes(oracle_general(objects))
    found = read(tmp_path, path)
    log = PolicyLog(**vars(found), training_steps=0)
    levels, ours, theirs = np.empty(len(objects), np.uint8), [], []
    BY_NAME["lru"].make(log, (10,)).serve(np.array(log.accesses[:10]), levels[:10])
    for _ in range(3):
        policy, accesses = BY_NAME["lru"].make(log, (10_000,)), np.array(log.accesses)
        began = time.thread_time()
        policy.serve(accesses, levels)
        ours.append(time.thread_time() - began)
        cache = libcachesim.LRU(cache_size=10_000)
        began = time.thread_time()
        hits_of(path, cache)
        theirs.append(time.thread_time() - began)
    assert min(ours) <= min(theirs)
