"""The interface of a model."""

from __future__ import annotations

from typing import Protocol

from foundation.protocol.codec import Values
from hosts.workload.trace import MiniBatch


class Model(Protocol):
    """A model that a worker trains, one mini-batch at a time."""

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        """Deltas to push [n] for the pulled values [n], and the mean loss before the update."""
        ...
