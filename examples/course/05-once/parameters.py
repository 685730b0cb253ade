"""Parameters that a seed changes: workers, their values, the share of lost frames, and which are lost."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

KEYS = 4
ROUNDS = 6


class Parameters(NamedTuple):
    workers: int
    values: list[list[list[int]]]
    """Values by worker, key and round."""
    loss: float
    random: Random


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    workers = random.randint(3, 8)
    values = [[[random.getrandbits(32) for _ in range(ROUNDS)] for _ in range(KEYS)] for _ in range(workers)]
    return Parameters(workers, values, random.choice((0.1, 0.2, 0.3)), random)
