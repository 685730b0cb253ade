"""Sparse logistic regression by SGD: a push is the scaled, negated gradient of the mean log loss."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hosts.workload.trace import MiniBatch
from logs.errors import DataError
from protocol.codec import Values

Floats: TypeAlias = NDArray[np.floating]

SCALE = 2.0**20
"""Units of 1.0: weights reach to +-2048, and a step of 1e-6 still counts."""
LEARNING_RATE = 4.0
"""Suits the built-in workload with four workers; `hosts.model.hyperparameters` chooses for others."""


class LogisticRegression:
    """Weights are value / `scale`; there is no bias: in click data a feature can play that part."""

    def __init__(self, scale: float = SCALE, learning_rate: float = LEARNING_RATE) -> None:
        self._scale = scale
        self._rate = learning_rate

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        """See `Model.step`; the loss is the mean log loss in nats."""
        if batch.label is None or batch.sample is None or batch.column is None:
            raise ValueError("a mini-batch without samples cannot be trained on")
        weights = values.view(np.int32) / self._scale
        terms = weights[batch.column] if batch.x is None else weights[batch.column] * batch.x
        logits = np.bincount(batch.sample, weights=terms, minlength=len(batch.label)).astype(np.float64)
        label = batch.label.astype(np.float64)
        loss = float(np.mean(np.logaddexp(0.0, logits) - label * logits))
        residual = ((sigmoid(logits) - label) / len(label))[batch.sample]
        if batch.x is not None:
            residual = residual * batch.x
        gradient = np.bincount(batch.column, weights=residual, minlength=len(values))
        return to_fixed_point(-self._rate * gradient, self._scale), loss


def sigmoid(numbers: Floats) -> Floats:
    """1 / (1 + e^-x), without overflow."""
    shares: Floats = 0.5 + 0.5 * np.tanh(0.5 * numbers)
    return shares


def to_fixed_point(numbers: Floats, scale: float) -> Values:
    """Numbers as fixed point, rounded to nearest; those beyond 32 bits are clipped.

    Raises `DataError` for numbers that are not finite.
    """
    finite = np.isfinite(numbers)
    if not finite.all():
        raise DataError(f"a gradient is {numbers[~finite][0]}: feature values or learning rate are too large")
    limits = np.iinfo(np.int32)
    # Not in 32-bit floats: they would round the upper limit up, beyond 32-bit integers.
    units = np.rint(np.asarray(numbers, np.float64) * scale).clip(limits.min, limits.max).astype(np.int32)
    return units.view(np.uint32)
