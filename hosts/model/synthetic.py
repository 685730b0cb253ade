"""Stands in for training where only an update log is known: deltas without meaning, to be moved and added."""

from __future__ import annotations

import numpy as np

from foundation.protocol.codec import Values
from hosts.workload.trace import MiniBatch


class SyntheticGradient:
    """Small random deltas of either sign, the same for the same `seed` and order of steps."""

    def __init__(self, seed: int, largest: int = 1000) -> None:
        self._random = np.random.default_rng(seed)
        self._largest = largest

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        """See `Model.step`; there is no loss (nan)."""
        deltas = self._random.integers(-self._largest, self._largest, len(values), np.int32, endpoint=True)
        return deltas.view(np.uint32), float("nan")
