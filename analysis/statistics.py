"""Estimates pooled over rounds, and their paired differences with bootstrap intervals.

RPCs of one round are anything but independent, so what is resampled is rounds: the same rounds for both
arms of a difference. An estimate over a resample is pooled: the quantile of all observations in its rounds,
or the sum of the numerators over the sum of the denominators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import bootstrap

Counts = npt.NDArray[np.int64]
"""How often each round is in each resample: (resamples, rounds)."""
Estimates = npt.NDArray[np.float64]
"""One estimate a resample: (resamples,)."""
Estimator = Callable[[Counts], Estimates]

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """An arm's estimate minus the baseline's, with its 95 % interval."""

    baseline: float
    value: float
    difference: float
    low: float
    high: float


def ratio(numerators: npt.ArrayLike, denominators: npt.ArrayLike) -> Estimator:
    """Sum of the rounds' numerators over the sum of their denominators; both (rounds,).

    With sums and numbers of observations it is a mean.
    """
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)

    def estimate(counts: Counts) -> Estimates:
        result: Estimates = (counts @ above) / (counts @ below)
        return result

    return estimate


def quantile(values: npt.ArrayLike, rounds: npt.ArrayLike, q: float) -> Estimator:
    """The q-quantile (nearest rank) of all observations; `values` and their round's index, both (n,)."""
    unsorted = np.asarray(values, np.float64)
    order = np.argsort(unsorted, kind="stable")
    ordered, round_of = unsorted[order], np.asarray(rounds, np.int64)[order]

    def estimate(counts: Counts) -> Estimates:
        rank = np.cumsum(counts[:, round_of], axis=1)
        wanted = np.maximum(np.ceil(q * rank[:, -1]), 1)
        # searchsorted for every row at once: rows are sorted, so the count of smaller ranks is the index.
        result: Estimates = ordered[(rank < wanted[:, None]).sum(axis=1)]
        return result

    return estimate


def pooled(estimator: Estimator, rounds: int) -> float:
    """The estimate over all rounds as they were."""
    return float(estimator(np.ones((1, rounds), np.int64))[0])


def paired_difference(arm: Estimator, baseline: Estimator, rounds: int, seed: int = 0) -> Difference:
    """`arm` minus `baseline` with a 95 % percentile interval from resampled rounds.

    With one round there is nothing to resample, and the interval is not a number.
    """
    value, reference = pooled(arm, rounds), pooled(baseline, rounds)
    if rounds < 2:
        return Difference(reference, value, value - reference, float("nan"), float("nan"))

    def statistic(drawn: npt.NDArray[np.int64], axis: int) -> Estimates:
        samples = np.moveaxis(drawn, axis, -1).reshape(-1, drawn.shape[axis])
        counts = (samples[:, :, None] == np.arange(rounds)).sum(axis=1)
        return (arm(counts) - baseline(counts)).reshape(np.delete(drawn.shape, axis))

    interval = bootstrap(
        (np.arange(rounds),),
        statistic,
        n_resamples=RESAMPLES,
        batch=250,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Difference(reference, value, value - reference, float(interval.low), float(interval.high))
