"""Default learning rate and scale for a training set.

The Hessian of the log loss is at most E[x xᵀ] / 4, so the loss has the smoothness L = λmax(E[x xᵀ]) / 4, and
the loss of one sample has |x|² / 4. For mini-batches of b samples a step of 1 / L' is safe, with the expected
smoothness L' = L (b - 1) / b + |x|² / 4b (Gower et al., "SGD: General Analysis and Improved Rates", 2019).
The paper takes the largest |x|². Here it is the mean, so one outlier does not stop all learning: gradients
of the log loss are bounded. With W asynchronous workers, W - 1 other gradients are added between the pull and
the push of each; 1 / (W L') is stable under such a delay. The scale follows the features' size, so their unit
has no influence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hosts.model.logistic import GRADIENT_SCALE, SCALE
from hosts.workload.trace import Samples, Trace

_SAMPLED_FEATURES = 300_000  # approximate number of features used to estimate the eigenvalue
_POWER_ITERATIONS = 30


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    learning_rate: float | None
    """Factor of the gradient of a mini-batch's mean log loss; None if servers optimise."""
    scale: float


def choose(
    trace: Trace,
    learning_rate: float | None = None,
    scale: float | None = None,
    servers_optimise: bool = False,
) -> Hyperparameters:
    """Choose the values that are None for a trace's samples. If servers optimise, no learning rate is set."""
    samples = trace.samples
    if samples is None:
        raise ValueError(f"{trace.name}: expected a trace with samples, got a trace without samples")
    if servers_optimise:
        return Hyperparameters(None, GRADIENT_SCALE / _feature_size(samples) if scale is None else scale)
    return Hyperparameters(
        learning_rate=_learning_rate(trace, samples) if learning_rate is None else learning_rate,
        # Weights shrink as features grow, and so does their unit.
        scale=SCALE * _feature_size(samples) if scale is None else scale,
    )


def chance_loss(samples: Samples) -> float:
    """Return the log loss in nats of a model that knows only the labels' frequencies: their entropy."""
    positive = float(samples.label.mean())
    return -sum(share * float(np.log(share)) for share in (positive, 1 - positive) if share)


def _learning_rate(trace: Trace, samples: Samples) -> float:
    batch_size = len(samples.label) / (trace.workers * trace.steps)
    smoothness = (_largest_eigenvalue(trace) * (batch_size - 1) + _mean_square(samples)) / (4 * batch_size)
    # Without any feature every gradient is 0, so any rate will do.
    return 1 / (trace.workers * smoothness) if smoothness else 1.0


def _feature_size(samples: Samples) -> float:
    """Return the root mean square of features that are not 0, rounded to a power of 2."""
    if samples.x is None or not samples.x.any():
        return 1.0
    squares = np.square(samples.x[samples.x != 0], dtype=np.float64)
    return float(2.0 ** np.round(np.log2(squares.mean()) / 2))


def _mean_square(samples: Samples) -> float:
    squares = samples.length.sum() if samples.x is None else np.square(samples.x, dtype=np.float64).sum()
    return float(squares) / len(samples.label)


def _largest_eigenvalue(trace: Trace) -> float:
    features = _sample_features(trace)
    vector = np.random.default_rng(0).standard_normal(features.n_columns)
    eigenvalue = 0.0
    for _ in range(_POWER_ITERATIONS):
        length = float(np.linalg.norm(vector))
        if not length:
            break
        projected = features.times(vector / length)
        eigenvalue = float(projected @ projected) / features.n_samples
        vector = features.transposed_times(projected)
    return eigenvalue


class _Features(NamedTuple):
    """A sparse matrix [n_samples, n_columns]; entries with equal rows and columns add up."""

    values: NDArray[np.float64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    n_samples: int
    n_columns: int

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return _sums(self.rows, self.values * vector[self.columns], self.n_samples)

    def transposed_times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return _sums(self.columns, self.values * vector[self.rows], self.n_columns)


def _sums(places: NDArray[np.int64], terms: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the sum of the terms of each place: [n]."""
    return np.bincount(places, terms, n).astype(np.float64, copy=False)


def _sample_features(trace: Trace) -> _Features:
    assert trace.samples is not None
    total_batches = trace.workers * trace.steps
    n_batches = np.ceil(total_batches * _SAMPLED_FEATURES / max(len(trace.samples.column), 1))
    rows, positions, values, n_samples = [], [], [], 0
    for number in np.unique(np.linspace(0, total_batches - 1, int(min(n_batches, total_batches)), dtype=int)):
        worker_index, step = divmod(int(number), trace.steps)
        batch = trace.batch(worker_index + 1, step)
        assert batch.label is not None and batch.sample is not None and batch.column is not None
        rows.append(batch.sample + n_samples)
        positions.append(batch.positions[batch.column])
        values.append(np.ones(len(batch.column)) if batch.x is None else batch.x.astype(np.float64))
        n_samples += len(batch.label)
    distinct, columns = np.unique(np.concatenate(positions), return_inverse=True)
    return _Features(np.concatenate(values), np.concatenate(rows), columns, n_samples, len(distinct))
