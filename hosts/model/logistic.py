"""Sparse logistic regression: a push is a step of SGD, or the gradient if servers have an optimiser."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.errors import DataError
from foundation.protocol.codec import Values
from foundation.protocol.header import padded_dim
from hosts.keys import Indices, KeySpace, places_of_rows
from hosts.workload.trace import MiniBatch
from nativekit.compile import int64
from nativekit.installed import HAS_NUMBA

Floats: TypeAlias = NDArray[np.floating]
Positions: TypeAlias = NDArray[np.integer]

SCALE = 2.0**20
"""Number of units in 1.0: weights range over ±2048, and a step of 1e-6 is still 1 unit."""
GRADIENT_SCALE = 2.0**24
"""Number of units in 1.0 for gradients of a mini-batch's mean loss if features are 1; range ±128."""
LEARNING_RATE = 4.0
"""Default for the built-in workload with four workers; see `hosts.model.hyperparameters` for other data."""


_INT32_MIN, _INT32_MAX = -(2.0**31), 2.0**31 - 1


class LogisticRegression:
    """Logistic regression whose weights are value / `scale`; a constant feature can replace a bias term.

    Without a learning rate servers optimise: weights are float32, gradients are in units of 1 / `scale`. The
    weight of a row of `padded` values, of which the last ones are padding, is its product with a fixed vector
    of length 1: with SGD the loss is that of rows of one value, whatever the `dim`. Rows of a `space` with
    several dims have none of padding.
    """

    def __init__(
        self, scale: float = SCALE, learning_rate: float | None = LEARNING_RATE, dim: int = 1,
        space: KeySpace | None = None,
    ) -> None:  # fmt: skip
        self._scale = float(scale)
        self._rate = learning_rate
        self._head = np.zeros(padded_dim(dim))
        self._head[:dim] = _signs(np.arange(dim)) / np.sqrt(dim)
        self._space = space if space is not None and len(space.dims) > 1 else None

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        if batch.label is None or batch.sample is None or batch.column is None:
            raise ValueError("expected a mini-batch with samples, got a mini-batch without samples")
        # Mapped and in-memory columns differ in type, for each of which numba would compile; copies do not.
        column = batch.column.astype(np.uint32)
        x = np.zeros(0) if batch.x is None else batch.x.astype(np.float64)
        dims = None if self._space is None else self._space.dims_at(batch.positions)
        weights = self._weights(values, dims)
        logits, gradient = np.zeros(len(batch.label)), np.zeros(len(weights))
        _add_terms(logits, batch.sample, column, x, weights)
        label = batch.label.astype(np.float64)
        loss = float(np.mean(np.logaddexp(0.0, logits) - label * logits))
        _add_gradients(gradient, batch.sample, column, x, (sigmoid(logits) - label) / len(label))
        push = gradient if self._rate is None else -self._rate * gradient
        if dims is not None:
            push = np.repeat(push, dims) * _heads(dims)
        elif len(self._head) > 1:
            push = np.outer(push, self._head).ravel()
        return to_fixed_point(push, self._scale), loss

    def _weights(self, values: Values, dims: Indices | None) -> NDArray[np.float64]:
        """Return the weight of each row [n]; `dims` are those of rows of several."""
        numbers: NDArray[np.float64] = (
            values.view(np.float32).astype(np.float64)
            if self._rate is None
            else values.view(np.int32) / self._scale
        )
        if dims is not None:
            by_row: NDArray[np.float64] = np.add.reduceat(numbers * _heads(dims), np.cumsum(dims) - dims)
            return by_row
        if len(self._head) == 1:
            return numbers
        weights: NDArray[np.float64] = numbers.reshape(-1, len(self._head)) @ self._head
        return weights


def _signs(indices: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the sign of each value of a head, by its index in the row."""
    return np.where(indices % 2, -1.0, 1.0)


def _heads(dims: Indices) -> NDArray[np.float64]:
    """Return the heads of rows [n], one after the other: [sum of dims]."""
    heads: NDArray[np.float64] = _signs(places_of_rows(np.zeros(len(dims), np.int64), dims))
    heads /= np.sqrt(np.repeat(dims, dims))
    return heads


def _add_terms_by_numpy(
    logits: Floats, sample: Positions, column: Positions, x: Floats, weights: Floats
) -> None:
    terms = weights[column]
    logits += np.bincount(sample, terms * x if len(x) else terms, len(logits))


def _add_gradients_by_numpy(
    gradient: Floats, sample: Positions, column: Positions, x: Floats, residual: Floats
) -> None:
    terms = residual[sample]
    gradient += np.bincount(column, terms * x if len(x) else terms, len(gradient))


@entry_point
def _add_terms(logits: Floats, sample: Positions, column: Positions, x: Floats, weights: Floats) -> None:
    """Add weight times x (or 1, if x is empty) of each feature to its sample's logit."""
    for k in range(len(column)):
        term = weights[column[k]]
        logits[sample[k]] += term * x[k] if len(x) else term


@entry_point
def _add_gradients(
    gradient: Floats, sample: Positions, column: Positions, x: Floats, residual: Floats
) -> None:
    for k in range(len(column)):
        term = residual[sample[k]]
        gradient[column[k]] += term * x[k] if len(x) else term


def sigmoid(numbers: Floats) -> Floats:
    """Return 1 / (1 + e^-x), without overflow."""
    probabilities: Floats = 0.5 + 0.5 * np.tanh(0.5 * numbers)
    return probabilities


def to_fixed_point(numbers: Floats, scale: float) -> Values:
    """Return numbers in fixed point, rounded, and clipped to 32 bits; raise `DataError` for NaN or ∞."""
    # Not in 32-bit floats: they would round the upper limit up, beyond 32-bit integers.
    doubles = np.array(numbers, np.float64)
    fixed_point = np.empty(len(doubles), np.int32)
    n_finite = _round_finite(doubles, scale, fixed_point)
    if n_finite < len(doubles):
        raise DataError(f"a gradient is {numbers[n_finite]}: feature values or learning rate are too large")
    return fixed_point.view(np.uint32)


def _round_finite_by_numpy(numbers: Floats, scale: float, units: NDArray[np.int32]) -> int:
    is_finite = np.isfinite(numbers)
    n_finite = len(numbers) if is_finite.all() else int(np.argmin(is_finite))
    units[:n_finite] = np.clip(np.rint(numbers[:n_finite] * scale), _INT32_MIN, _INT32_MAX)
    return n_finite


@entry_point
def _round_finite(numbers: Floats, scale: float, units: NDArray[np.int32]) -> int:
    for i in range(len(numbers)):
        if not np.isfinite(numbers[i]):
            return i
        units[i] = int64(min(max(np.rint(numbers[i] * scale), _INT32_MIN), _INT32_MAX))
    return len(numbers)


if not HAS_NUMBA:  # the same in the same order, and 100 times faster than loops of plain Python
    _add_terms, _add_gradients = _add_terms_by_numpy, _add_gradients_by_numpy
    _round_finite = _round_finite_by_numpy
