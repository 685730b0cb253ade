"""Built-in click data with the skew of Pan et al. Fig. 10, the share of updates of the hottest parameters.

Features are drawn from a Zipf-Mandelbrot law, whose exponent is calibrated on *updates*: pushed lanes, after
aggregation within the mini-batch, so that a parameter counts once a step however often it is drawn. Labels
come from a planted model, so that models can learn them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.keys import KeySpace
from hosts.model.logistic import sigmoid
from hosts.workload.trace import Samples, Trace, distinct_columns, distinct_positions, prefix_sums

_SHIFT = 10.0
"""Shift that flattens the law's head, so that no feature is in every sample, as in cleaned click data."""
_PLANTED_SPREAD = 0.7  # standard deviation of the planted weights
_CHUNK_DRAWS = 2_000_000
"""Number of features drawn before the labels of the same chunk; changing it changes the trace of a seed."""
_BLOCK_DRAWS = 50_000
"""Number of draws processed at a time; their intermediate results fit into a core's cache."""
_THREADS = 4
_EXACT_RANKS = 1_000  # number of the hottest ranks that have bins of their own in the calibration
_BINS = 2_000  # number of bins of the other ranks
_BISECTION_STEPS = 30
_TOLERANCE = 0.05  # maximum deviation of a calibrated workload from its shape


@dataclass(frozen=True, slots=True)
class Shape:
    """An application's size and skew: the top `hot` parameters take `hot_share` of the updates.

    `keys_per_step` decides how well hash lanes are filled (docs/design.md).
    """

    name: str
    parameters: int
    hot: int
    hot_share: float
    keys_per_step: int
    features_per_sample: int


R1 = Shape("R1", parameters=900_000, hot=20_000, hot_share=0.5, keys_per_step=3_000, features_per_sample=16)
"""The recommendation application of Pan et al."""
R2 = Shape(
    "R2", parameters=150_000_000, hot=20_000, hot_share=0.7, keys_per_step=3_000, features_per_sample=16
)
"""The search application of Pan et al.; the generator takes some 2 GB for it."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A continuous law in which rank r of `size` has weight (r + shift)^-exponent; it needs no table."""

    size: int
    exponent: float
    shift: float = _SHIFT

    def cumulative(self, rank: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = self._power(np.zeros(1)), self._power(np.full(1, float(self.size)))
        return (self._power(rank) - low) / (high - low)

    def ranks(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return draws (0-based ranks) from uniform numbers in [0, 1)."""
        low, high = self._power(np.zeros(1)), self._power(np.full(1, float(self.size)))
        point = low + uniform * (high - low)
        rank = point ** (1 / (1 - self.exponent)) - self.shift
        return np.clip(rank.astype(np.int64), 0, self.size - 1)

    def _power(self, rank: NDArray[np.float64]) -> NDArray[np.float64]:
        return (rank + self.shift) ** (1 - self.exponent)

    def updates(self, draws: int, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the expected updates per bin in a mini-batch of `draws` draws; `edges` [n + 1] -> [n]."""
        return expected_updates(draws, self.log_misses(edges), np.diff(edges))

    def log_misses(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log(1 - p) of each bin, where p is the probability that a draw is one of its parameters."""
        probability = np.diff(self.cumulative(edges.astype(np.float64))) / np.diff(edges)
        logarithms: NDArray[np.float64] = np.log1p(-probability)
        return logarithms


def expected_updates(
    draws: int, log_misses: NDArray[np.float64], width: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the expected updates per bin, of `width` parameters, in a mini-batch of `draws` draws."""
    # 1 - (1 - p)^draws: a parameter counts once, however often it is drawn.
    updates: NDArray[np.float64] = -np.expm1(draws * log_misses) * width
    return updates


@lru_cache(maxsize=64)  # a study generates data of the same shapes many times
def calibrate(shape: Shape) -> tuple[PowerLaw, int]:
    """Return law and draws per mini-batch that give a shape's keys and share. Raises `DataError`."""
    target_keys = float(shape.keys_per_step)
    edges = bins_of(shape.parameters, shape.hot)
    width, is_hot = np.diff(edges), edges[:-1] < shape.hot

    def updates_of(law: PowerLaw) -> tuple[int, NDArray[np.float64]]:
        log_misses = law.log_misses(edges)

        @cache  # the last steps of the bisection round to the same integers
        def expected_keys(draws: int) -> float:
            return float(expected_updates(draws, log_misses, width).sum())

        def rounded_keys(draws: float) -> float:
            return expected_keys(round(draws))

        draws = round(bisect(rounded_keys, target_keys, low=target_keys, high=100 * target_keys))
        return draws, expected_updates(draws, log_misses, width)

    def hot_share(exponent: float) -> float:
        _, updates = updates_of(PowerLaw(shape.parameters, exponent))
        return float(updates[is_hot].sum() / updates.sum())

    # The integral has another form for an exponent of 1; bisecting these bounds never yields exactly 1.
    law = PowerLaw(shape.parameters, bisect(hot_share, shape.hot_share, low=0.001, high=2.5007))
    draws, updates = updates_of(law)
    expected_keys = float(updates.sum())
    is_reached = abs(expected_keys - target_keys) <= _TOLERANCE * target_keys
    if not is_reached or abs(float(updates[is_hot].sum()) / expected_keys - shape.hot_share) > _TOLERANCE:
        # The advice is a rule of thumb: R1 and R2 reach their shares with `hot` / 2 keys per step.
        advised_keys = min(shape.hot, shape.keys_per_step) // 2
        raise DataError(
            f"{shape.keys_per_step} keys per step are too many for workload {shape.name}, whose hottest "
            f"{shape.hot} parameters take {shape.hot_share:.0%} of the updates; try {advised_keys}"
        )
    return law, draws


def bins_of(size: int, hot: int) -> NDArray[np.int64]:
    head = np.arange(min(_EXACT_RANKS, size))
    tail = np.geomspace(min(_EXACT_RANKS, size), size, _BINS).round().astype(np.int64)
    return np.unique(np.concatenate([head, [hot], tail]))


def bisect(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return (low + high) / 2


class _MiniBatches(NamedTuple):
    sizes: NDArray[np.int64]
    positions: NDArray[np.uint32]
    columns: NDArray[np.unsignedinteger] = np.zeros(0, np.uint16)  # columns and labels are of samples
    label: NDArray[np.uint8] = np.zeros(0, np.uint8)


class Features(Protocol):
    """How features of samples are drawn."""

    name: str
    parameters: int
    samples: int  # of a mini-batch
    features_per_sample: int
    ranges: RowRanges

    def positions(self, uniform: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Return the rows that numbers in [0, 1) draw, sample by sample; both [batches, draws]."""
        ...


class _OneTable:
    def __init__(self, shape: Shape, random: np.random.Generator) -> None:
        self._law, draws = calibrate(shape)
        self.name, self.parameters = shape.name, shape.parameters
        self.features_per_sample = shape.features_per_sample
        self.samples = max(1, round(draws / shape.features_per_sample))
        self.ranges = ONE_VALUE
        self._position_of_rank = random.permutation(shape.parameters).astype(np.uint32)

    def positions(self, uniform: NDArray[np.float64]) -> NDArray[np.uint32]:
        drawn: NDArray[np.uint32] = self._position_of_rank[self._law.ranks(uniform)]
        return drawn


def generate(
    shape: Shape, workers: int, steps: int, seed: int,
    progress: Callable[[float], None] = lambda share: None, has_samples: bool = True,
) -> Trace:  # fmt: skip
    """Return a trace of click data, the same for the same arguments; `progress` gets the share done.

    Without samples, the mini-batches are the same.
    """
    random = np.random.default_rng(seed)
    return generate_from(_OneTable(shape, random), workers, steps, random, progress, has_samples)


def generate_from(
    features: Features, workers: int, steps: int, random: np.random.Generator,
    progress: Callable[[float], None] = lambda share: None, has_samples: bool = True,
) -> Trace:  # fmt: skip
    """Return a trace of samples with these features; their labels come from a planted model."""
    samples_per_batch = features.samples
    draws = samples_per_batch * features.features_per_sample
    planted_weights = random.standard_normal(features.parameters, dtype=np.float32)
    planted_weights *= np.float32(_PLANTED_SPREAD)
    column_type: type[np.unsignedinteger[Any]] = np.uint16 if draws <= 2**16 else np.uint32

    def make_mini_batches(uniform: NDArray[np.float64], label_draws: NDArray[np.float64]) -> _MiniBatches:
        drawn = features.positions(uniform)
        if not has_samples:
            return _MiniBatches(*distinct_positions(drawn))
        logit = planted_weights[drawn].reshape(len(label_draws), -1).sum(axis=1)
        sizes, positions, columns = distinct_columns(drawn)
        label = (label_draws < sigmoid(logit)).astype(np.uint8)
        return _MiniBatches(sizes, positions, columns.astype(column_type).ravel(), label)

    batches, mini_batch_blocks = workers * steps, list[_MiniBatches]()
    chunk_batches, block_batches = (max(1, number // draws) for number in (_CHUNK_DRAWS, _BLOCK_DRAWS))
    uniform = np.empty((chunk_batches, draws))
    # NumPy releases the GIL, so the threads run in parallel.
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        for start in range(0, batches, chunk_batches):
            n = min(chunk_batches, batches - start)
            random.random(out=uniform[:n])
            label_draws = random.random(n * samples_per_batch).reshape(n, samples_per_batch)
            blocks = [slice(first, min(first + block_batches, n)) for first in range(0, n, block_batches)]
            mini_batch_blocks += pool.map(
                make_mini_batches,
                (uniform[rows] for rows in blocks),
                (label_draws[rows].ravel() for rows in blocks),
            )
            progress((start + n) / batches)

    batch_index = np.arange(batches + 1, dtype=np.int64)
    samples = None
    if has_samples:
        samples = Samples(
            batch_start=batch_index * samples_per_batch,
            label=np.concatenate([part.label for part in mini_batch_blocks]),
            length=np.full(batches * samples_per_batch, features.features_per_sample, dtype=np.uint32),
            entry_start=batch_index * draws,
            column=np.concatenate([part.columns for part in mini_batch_blocks]),
            x=None,
        )
    return Trace(
        name=features.name,
        workers=workers,
        steps=steps,
        space=KeySpace(features.parameters, ranges=features.ranges),
        key_start=prefix_sums(np.concatenate([part.sizes for part in mini_batch_blocks])),
        position=np.concatenate([part.positions for part in mini_batch_blocks]),
        samples=samples,
    )
