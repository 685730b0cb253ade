"""Parameters that a seed changes: true changes, noise, drift, and the measured times."""

from __future__ import annotations

from math import exp
from random import Random
from typing import NamedTuple

ROUNDS = 12
SERIES = 150


class Series(NamedTuple):
    truth: float
    """The true change, as a share of the baseline."""
    baseline: list[float]
    repeat: list[float]
    change: list[float]


class Parameters(NamedTuple):
    measured: list[Series]
    without_change: list[Series]
    with_change: list[Series]
    """With a change that is several times its standard error."""
    not_repeated: list[Series]
    """The repeat differs from the baseline by as much as the change."""


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    noise = random.uniform(0.02, 0.05)

    def series(truth: float, repeat: float = 0.0) -> Series:
        drift = [10 * exp(random.gauss(0, 0.4)) for _ in range(ROUNDS)]
        arms = [
            [time * (1 + share) * exp(random.gauss(0, noise)) for time in drift]
            for share in (0, repeat, truth)
        ]
        return Series(truth, *arms)

    return Parameters(
        [series(random.uniform(-0.3, 0.3)) for _ in range(SERIES)],
        [series(0.0) for _ in range(SERIES)],
        [series(random.choice((-0.25, 0.25))) for _ in range(SERIES // 5)],
        [series(0.25, repeat=0.25) for _ in range(SERIES // 5)],
    )
