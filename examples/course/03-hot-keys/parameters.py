"""Parameters that a seed changes: the hot and cold keys, the limit, and the order of the updates."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

HOT_KEYS, COLD_KEYS = 20, 400


class Parameters(NamedTuple):
    limit: int
    hot: list[int]
    """Keys with `limit` or more updates."""
    cold: list[int]
    """Keys with one or two updates each."""
    updates: list[int]


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    limit = random.randint(8, 12)
    keys = random.sample(range(1 << 32), COLD_KEYS + HOT_KEYS)
    hot, cold = keys[COLD_KEYS:], keys[:COLD_KEYS]
    updates = [key for key in hot for _ in range(limit + random.randint(0, 10))]
    updates += [key for key in cold for _ in range(random.randint(1, 2))]
    random.shuffle(updates)
    return Parameters(limit, hot, cold, updates)
