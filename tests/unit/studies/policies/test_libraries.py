"""LRU, and LFU without ageing, against cachetools."""

from __future__ import annotations

from typing import Any

import cachetools
import numpy as np
import pytest

from studies.policies.rules import lfu, lru
from switch_harness.effort import seeds
from tests.unit.studies.policies.test_rules import SIZES, random_log


def hits_of(cache: Any, keys: list[int]) -> list[bool]:
    hits = []
    for key in keys:
        hits.append(key in cache)
        if hits[-1]:
            cache[key]  # which is an access
        else:
            cache[key] = True
    return hits


@pytest.mark.parametrize("seed", seeds(10))
def test_lru_and_lfu_are_cachetools(seed: int) -> None:
    log = random_log(200 + seed)
    levels = np.empty(len(log.accesses), np.uint8)
    lru.make(log, SIZES).serve(log.accesses, levels)
    for number, size in enumerate(SIZES):
        expected = hits_of(cachetools.LRUCache(size), log.accesses.tolist())
        assert (levels <= number).tolist() == expected
    for size in SIZES:
        lfu.make(log, (size,), max_mean=0).serve(log.accesses, levels)
        assert (levels == 0).tolist() == hits_of(cachetools.LFUCache(size), log.accesses.tolist())
