"""Models trained between pull and push in 32-bit fixed point, `scale` units for 1.0, wrapping mod 2^32."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from foundation.protocol.codec import Values
from hosts.model.logistic import LogisticRegression
from hosts.workload.trace import MiniBatch

__all__ = ["LogisticRegression", "Model", "SyntheticGradient"]


class Model(Protocol):
    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        """Return the deltas to push [n] for the pulled values [n], and the mean loss before the update."""
        ...


class SyntheticGradient:
    """Small random deltas, for access logs without samples; they depend on seed and order of steps."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        deltas = self._random.integers(-1000, 1000, len(values), np.int32, endpoint=True)
        return deltas.view(np.uint32), float("nan")
