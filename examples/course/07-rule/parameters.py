"""Parameters that a seed changes: the popularity of keys, its drift, and the updates of each window."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

KEYS, CAPACITY = 400, 40
WINDOWS, UPDATES = 60, 600


class Parameters(NamedTuple):
    capacity: int
    windows: list[dict[int, int]]
    """Updates by key, of each window."""


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    skew = random.uniform(0.7, 0.9)
    weights = [1 / (rank + 1) ** skew for rank in range(KEYS)]
    keys = random.sample(range(1 << 20), KEYS)
    windows = []
    for _ in range(WINDOWS):
        windows.append(dict(Counter(random.choices(keys, weights, k=UPDATES))))
        for _ in range(2):  # a key of any rank becomes one of the hottest
            keys.insert(random.randrange(CAPACITY), keys.pop(random.randrange(KEYS)))
    return Parameters(CAPACITY, windows)
