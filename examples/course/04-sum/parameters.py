"""Parameters that a seed changes: the number of workers, their values, and the order of their updates."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

KEYS = 16
ROUNDS = 3


class Update(NamedTuple):
    worker: int
    key: int
    value: int


class Parameters(NamedTuple):
    workers: int
    updates: list[Update]
    """Updates of several rounds; those of a key's round come before those of its next round."""


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    workers = random.randint(3, 7)
    updates = []
    for _ in range(ROUNDS):
        one = [
            Update(worker, key, random.getrandbits(32)) for worker in range(workers) for key in range(KEYS)
        ]
        random.shuffle(one)
        updates += one
    return Parameters(workers, updates)
