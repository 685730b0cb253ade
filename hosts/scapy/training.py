"""The computation of a worker between pull and push: logistic regression in fixed point, in plain numpy."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.protocol.header import padded_dim
from hosts.keys import KeySpace, places_of_rows
from hosts.workload.trace import MiniBatch

Values = NDArray[np.uint32]
_INT32_MIN, _INT32_MAX = -(2.0**31), 2.0**31 - 1


class StepModel(Protocol):
    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        """Return the deltas to push for pulled rows, as `values`, and the mean loss before the update."""
        ...


class RandomGradient:
    """Small random deltas, for workloads without samples; they depend on seed and order of steps."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        deltas = self._random.integers(-1000, 1000, len(values), np.int32, endpoint=True)
        return deltas.view(np.uint32), float("nan")


class LogisticModel:
    """Sparse logistic regression: a weight is a value / `scale`, and a push is a step of SGD.

    The weight of a row of several values is their product with a fixed vector of length 1, its *head*. With a
    `dim` the values after the first `dim` ones of a row are padding.
    """

    def __init__(self, scale: float, learning_rate: float, dim: int, space: KeySpace) -> None:
        self._scale, self._rate, self._space = scale, learning_rate, space
        self._dim = dim if space.dims == (padded_dim(dim),) else None

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        if batch.label is None or batch.sample is None or batch.column is None:
            raise ValueError("expected a mini-batch with samples, got a mini-batch without samples")
        dims = self._space.dims_at(batch.positions)
        heads, numbers = self._heads(dims), values.view(np.int32) / self._scale
        if len(self._space.dims) == 1:
            weights = numbers.reshape(len(dims), -1) @ heads[: self._space.dims[0]]
        else:
            weights = np.add.reduceat(numbers * heads, np.cumsum(dims) - dims)
        # Features of samples, one after the other: all are 1 if the data has no numbers.
        x = np.ones(len(batch.column)) if batch.x is None else batch.x.astype(np.float64)
        label = batch.label.astype(np.float64)
        logits = np.bincount(batch.sample, weights[batch.column] * x, len(label))
        loss = float(np.mean(np.logaddexp(0.0, logits) - label * logits))
        probabilities = 0.5 + 0.5 * np.tanh(0.5 * logits)
        residual = (probabilities - label) / len(label)
        gradient = np.bincount(batch.column, residual[batch.sample] * x, len(dims))
        return self._to_fixed_point(np.repeat(-self._rate * gradient, dims) * heads), loss

    def _heads(self, dims: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the heads of rows [n], one after the other: [sum of dims]."""
        index = places_of_rows(np.zeros(len(dims), np.int64), dims)
        used = np.repeat(dims, dims) if self._dim is None else np.full(len(index), self._dim)
        heads: NDArray[np.float64] = np.where(index % 2, -1.0, 1.0) * (index < used) / np.sqrt(used)
        return heads

    def _to_fixed_point(self, numbers: NDArray[np.floating]) -> Values:
        is_finite = np.isfinite(numbers)
        if not is_finite.all():
            raise DataError(
                f"a gradient is {numbers[~is_finite][0]}: feature values or learning rate are too large"
            )
        units = np.clip(np.rint(numbers * self._scale), _INT32_MIN, _INT32_MAX)
        deltas: Values = units.astype(np.int32).view(np.uint32)
        return deltas
