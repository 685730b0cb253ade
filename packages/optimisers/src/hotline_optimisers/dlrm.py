"""A small DLRM (Naumov et al. 2019) on synthetic clicks; the servers have all of its parameters.

A sample has numbers (dense features) and categories (sparse features). The bottom MLP maps the numbers to a
vector. The top MLP maps this vector, and the dot products of all pairs of it and embeddings, to the logit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values
from hosts.model.logistic import sigmoid, to_fixed_point
from hosts.workload.trace import MiniBatch, Trace, distinct_columns
from hotline_simulator.training import trace_of_samples

Floats: TypeAlias = NDArray[np.float64]

NUMBERS, DIM, BOTTOM_UNITS, TOP_UNITS = 4, 8, 16, 16
"""Dense features of a sample, length of an embedding, and units of the MLPs' hidden layers."""
ROWS = tuple(round(20 * 2.5**k) for k in range(8))
"""Number of embeddings of each category: from 20 to 12,207."""
_EMBEDDING_STD, _LABEL_STD, _NUMBER_WEIGHT_STD = 0.3, 0.8, 0.5
"""Standard deviations of initial embeddings, and of the labels' logits by category value and by number."""
_WEIGHTS_SEED = 1  # of the initial parameters
_LABEL_BIAS = -1  # mean logit: fewer samples are clicks than not


def _shapes(categories: int) -> list[tuple[int, ...]]:
    # Weights and biases of the bottom MLP, then of the top MLP. Its inputs are a vector and dot products.
    vectors = categories + 1
    inputs = DIM + vectors * (vectors - 1) // 2
    return [
        (NUMBERS, BOTTOM_UNITS), (BOTTOM_UNITS,), (BOTTOM_UNITS, DIM), (DIM,),
        (inputs, TOP_UNITS), (TOP_UNITS,), (TOP_UNITS, 1), (1,),
    ]  # fmt: skip


def dense_size(rows: Sequence[int] = ROWS) -> int:
    """Return the number of parameters of the MLPs, which precede the embeddings' parameters."""
    return sum(int(np.prod(shape)) for shape in _shapes(len(rows)))


def make_trace(workers: int, steps: int, batch: int, seed: int, rows: Sequence[int] = ROWS) -> Trace:
    """Return mini-batches whose samples have one entry for each category, and then one for each number.

    The `column` of a category's entry is that of its embedding's first value. The `x` of a number's entry is
    the number.
    """
    random = np.random.default_rng(seed)
    batches, mlp_size, categories = workers * steps, dense_size(rows), len(rows)
    n = batches * batch
    numbers = random.normal(size=(n, NUMBERS))
    # The n-th most popular value of a category is 1 / n times as frequent as the first.
    popularities = [1 / np.arange(1, size + 1) for size in rows]
    category_values = np.stack(
        [random.choice(len(popularity), n, p=popularity / popularity.sum()) for popularity in popularities], 1
    )
    logit = numbers @ random.normal(0, _NUMBER_WEIGHT_STD, NUMBERS) + _LABEL_BIAS
    for k, size in enumerate(rows):
        logit += random.normal(0, _LABEL_STD, size)[category_values[:, k]]
    first_positions = mlp_size + DIM * (np.cumsum((0, *rows[:-1])) + category_values)
    embedding_positions = (first_positions[:, :, None] + np.arange(DIM)).reshape(batches, -1)
    batch_positions = np.concatenate(
        [np.broadcast_to(np.arange(mlp_size), (batches, mlp_size)), embedding_positions], 1
    )
    sizes, positions, columns = distinct_columns(batch_positions)
    entries = np.zeros((n, categories + NUMBERS), np.uint32)
    # Each embedding has DIM columns, of which the first is its entry's.
    entries[:, :categories] = columns[:, mlp_size::DIM].reshape(n, categories)
    x = np.ones(entries.shape, np.float32)
    x[:, categories:] = numbers
    is_click = random.random(n) < sigmoid(logit)
    parameters = mlp_size + DIM * sum(rows)
    return trace_of_samples("DLRM", workers, steps, parameters, sizes, positions, entries, is_click, x)


class DLRM:
    """The model (`hosts.model.Model`); the servers' values are added to seeded initial parameters.

    With a learning rate, workers push SGD steps, which servers add; without one, they push gradients.
    """

    def __init__(self, scale: float, learning_rate: float | None = None, rows: Sequence[int] = ROWS) -> None:
        self._scale, self._rate, self._categories = scale, learning_rate, len(rows)
        self._shapes, self._mlp_size = _shapes(len(rows)), dense_size(rows)
        random = np.random.default_rng(_WEIGHTS_SEED)
        layers = [
            random.normal(0, np.sqrt(2 / shape[0]), shape) if len(shape) == 2 else np.zeros(shape)
            for shape in self._shapes
        ]
        tables = random.normal(0, _EMBEDDING_STD, DIM * sum(rows))
        self.initial: Floats = np.concatenate([*(layer.ravel() for layer in layers), tables])

    def step(self, batch: MiniBatch, values: Values) -> tuple[Values, float]:
        """Return the deltas, or gradients, and the mean log loss in nats."""
        if self._rate is None:  # servers that optimise store float32 values
            server_values = values.view(np.float32).astype(np.float64)
        else:
            server_values = values.view(np.int32) / self._scale
        gradient, loss = self.gradient(batch, self.initial[batch.positions] + server_values)
        push = gradient if self._rate is None else -self._rate * gradient
        return to_fixed_point(push, self._scale), loss

    def gradient(self, batch: MiniBatch, weights: Floats) -> tuple[Floats, float]:
        """Return the gradient of the mini-batch's mean log loss by `weights`, and the loss in nats."""
        assert batch.label is not None and batch.column is not None and batch.x is not None
        n, categories = len(batch.label), self._categories
        label = batch.label.astype(np.float64)
        columns = batch.column.reshape(n, -1)[:, :categories].astype(np.int64)
        embedding_indices = columns[:, :, None] + np.arange(DIM)
        numbers = batch.x.reshape(n, -1)[:, categories:].astype(np.float64)
        w1, b1, w2, b2, w3, b3, w4, b4 = self._layers(weights)
        row, column = np.tril_indices(categories + 1, -1)

        hidden = np.maximum(numbers @ w1 + b1, 0)
        bottom = np.maximum(hidden @ w2 + b2, 0)
        vectors = np.concatenate([bottom[:, None], weights[embedding_indices]], 1)
        products = (vectors @ vectors.transpose(0, 2, 1))[:, row, column]
        inputs = np.concatenate([bottom, products], 1)
        top = np.maximum(inputs @ w3 + b3, 0)
        logit = (top @ w4 + b4)[:, 0]
        loss = float(np.mean(np.logaddexp(0.0, logit) - label * logit))

        d_logit = ((sigmoid(logit) - label) / n)[:, None]
        d_top = d_logit @ w4.T * (top > 0)
        d_inputs = d_top @ w3.T
        d_pairs = np.zeros((n, categories + 1, categories + 1))
        d_pairs[:, row, column] = d_inputs[:, DIM:]
        d_vectors = (d_pairs + d_pairs.transpose(0, 2, 1)) @ vectors
        d_bottom = (d_inputs[:, :DIM] + d_vectors[:, 0]) * (bottom > 0)
        d_hidden = d_bottom @ w2.T * (hidden > 0)
        layers = (
            numbers.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_bottom, d_bottom.sum(0),
            inputs.T @ d_top, d_top.sum(0), top.T @ d_logit, d_logit.sum(0),
        )  # fmt: skip
        gradient: Floats = np.zeros(len(weights))
        gradient += np.bincount(embedding_indices.ravel(), d_vectors[:, 1:].ravel(), len(weights))
        gradient[: self._mlp_size] = np.concatenate([layer.ravel() for layer in layers])
        return gradient, loss

    def _layers(self, weights: Floats) -> Iterator[Floats]:
        start = 0
        for shape in self._shapes:
            end = start + int(np.prod(shape))
            yield weights[start:end].reshape(shape)
            start = end
