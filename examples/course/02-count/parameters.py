"""Parameters that a seed changes: the keys and values of the updates, and their order."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

KEYS = 64
UPDATES = 300


class Parameters(NamedTuple):
    updates: list[tuple[int, int]]
    """Keys with values; some keys have no cell."""


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    keys = [*random.sample(range(KEYS), random.randint(5, 20)), KEYS, KEYS + random.randrange(1000)]
    return Parameters(
        [(random.choice(keys), random.getrandbits(random.choice((4, 32)))) for _ in range(UPDATES)]
    )
