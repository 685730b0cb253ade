"""Paired differences of two arms over rounds, with intervals of exact coverage (docs/intervals.md).

RPCs of one round are not independent, so each round gives one estimate per arm, from its block, and arms are
compared by the mean of the rounds' log ratios. The means over all subsets of the rounds are typical values
(Hartigan, "Using subsample values as typical values", 1969): the true value is equally likely to lie between
any two neighbours of them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from analysis.student import t_quantile

Rounds = npt.NDArray[np.float64]
"""One estimate per round: (rounds,)."""
Estimates = npt.NDArray[np.float64]
"""One estimate per subset: (subsets,)."""

SUBSETS = 4095
"""Maximum number of subsets: all of 12 rounds; of more rounds a random sample."""
ALPHA = 0.05
"""Error rate of an interval: the probability that it excludes the true value. A run that may stop at several
looks uses smaller error rates (`analysis.stopping`)."""
_MAX_ROUNDING_ERROR = 1e-12  # as a share of the largest value
MIN_ROUNDS = 6
"""Minimum number of rounds for an interval at `ALPHA`. n rounds have 2^n - 1 subsets; with 5 rounds the
widest interval covers 94 % only."""


class Comparison(BaseModel):
    """An arm's estimate compared with the baseline's, with intervals; None for undefined numbers.

    Estimates are geometric means over rounds, and bounds of the difference are those of the ratio times the
    baseline. If some round has a 0, estimates are arithmetic means. A ratio and its bounds are never below
    -1, because no metric is negative; from a baseline of 0 there is no ratio, only a difference.
    """

    model_config = ConfigDict(frozen=True)

    reference: float
    value: float
    difference: float
    """`value` - `reference`, in the metric's unit, with bounds `low` and `high`."""
    low: float | None
    high: float | None
    ratio: float | None
    """`value` / `reference` - 1, with bounds `ratio_low` and `ratio_high`; -1 is a value of 0."""
    ratio_low: float | None
    ratio_high: float | None

    @property
    def sign(self) -> int:
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    @property
    def is_from_zero_to_zero(self) -> bool:
        return self.reference == self.value == 0

    @property
    def half_width(self) -> float | None:
        if self.ratio_low is None or self.ratio_high is None:
            return None
        return (self.ratio_high - self.ratio_low) / 2


def min_rounds(alpha: float) -> int:
    # The widest interval of n rounds misses the true value with probability 2 / 2^n.
    return math.ceil(1 - math.log2(alpha))


def compare_paired(arm: Rounds, baseline: Rounds, alpha: float = ALPHA) -> Comparison:
    """Compare two arms' rounds. Bounds are None below `min_rounds(alpha)` rounds, ratios for baseline 0."""
    if (arm > 0).all() and (baseline > 0).all():
        return _compare_geometric_means(arm, baseline, alpha)
    return _compare_arithmetic_means(arm, baseline, alpha)


def _compare_geometric_means(arm: Rounds, baseline: Rounds, alpha: float) -> Comparison:
    logs = np.log(arm / baseline)
    low, high = _interval_or_none(logs, alpha)
    return comparison_of_logarithms(np.log(baseline).mean(), logs.mean(), low, high)


def comparison_of_logarithms(
    log_baseline: float, shift: float, low: float | None, high: float | None
) -> Comparison:
    low, high = (None if logarithm is None else float(np.exp(logarithm)) for logarithm in (low, high))
    return comparison_of_ratio(float(np.exp(log_baseline)), float(np.exp(shift)), low, high)


def comparison_of_ratio(
    reference: float, quotient: float, low: float | None, high: float | None
) -> Comparison:
    """Return the comparison of a value that is `quotient` times the baseline, with bounds of the quotient."""
    ratio = quotient - 1
    ratio_low, ratio_high = (None if bound is None else bound - 1 for bound in (low, high))
    return Comparison(
        reference=reference,
        value=reference * quotient,
        difference=reference * ratio,
        low=None if ratio_low is None else reference * ratio_low,
        high=None if ratio_high is None else reference * ratio_high,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def relative_change(value: float, reference: float) -> float | None:
    """Return `value` / `reference` - 1; None from 0, which has no relative change."""
    return value / reference - 1 if reference else None


def _compare_arithmetic_means(arm: Rounds, baseline: Rounds, alpha: float) -> Comparison:
    reference, value = float(baseline.mean()), float(arm.mean())
    low, high = _interval_or_none(arm - baseline, alpha)
    ratio = relative_change(value, reference)
    ratio_low = ratio_high = None
    if ratio is not None and low is not None and high is not None:
        ratio_low, ratio_high = _interval_of_ratio(arm, baseline, _divided(low, high, reference), alpha)
    return Comparison(
        reference=reference,
        value=value,
        difference=value - reference,
        low=low,
        high=high,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def _divided(low: float, high: float, reference: float) -> tuple[float, float]:
    """Return a difference's bounds as shares of the baseline, whose uncertainty they leave out."""
    return max(low / reference, -1.0), high / reference


def _interval_of_ratio(
    arm: Rounds, baseline: Rounds, relative_bounds: tuple[float, float], alpha: float
) -> tuple[float, float]:
    """Return the interval of `arm` / `baseline` - 1, where rounds of the arm, or some of both, are 0."""
    if not arm.any():
        return -1.0, -1.0
    if (baseline > 0).all():
        # A subset's ratio of sums is above the true ratio if its mean of `arm` - true ratio * `baseline` is
        # positive, and below it if that is negative, so these ratios are typical values, too.
        members = subsets(len(arm))
        return typical_interval((members @ arm) / (members @ baseline) - 1, alpha)
    # Some subset has a baseline of 0, and no ratio.
    return relative_bounds


def compare_unpaired(other_run: Rounds, first_run: Rounds) -> Comparison:
    """Compare two runs, by Welch's interval from `MIN_ROUNDS` rounds on."""
    if not ((other_run > 0).all() and (first_run > 0).all()):
        return _compare_unpaired_means(other_run, first_run)
    other_logs, first_logs = np.log(other_run), np.log(first_run)
    shift = other_logs.mean() - first_logs.mean()
    return comparison_of_logarithms(first_logs.mean(), shift, *_welch_interval(other_logs, first_logs))


def _compare_unpaired_means(other_run: Rounds, first_run: Rounds) -> Comparison:
    reference, value = float(first_run.mean()), float(other_run.mean())
    low, high = _welch_interval(other_run, first_run)
    ratio_low = ratio_high = None
    if reference and low is not None and high is not None:
        ratio_low, ratio_high = _divided(low, high, reference) if value else (-1.0, -1.0)
    return Comparison(
        reference=reference,
        value=value,
        difference=value - reference,
        low=low,
        high=high,
        ratio=relative_change(value, reference),
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def _welch_interval(other_run: Rounds, first_run: Rounds) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the difference of two means with different variances."""
    if min(len(other_run), len(first_run)) < MIN_ROUNDS:
        return None, None
    shift = float(other_run.mean() - first_run.mean())
    mean_variances = [
        (values.var(ddof=1) / len(values), len(values) - 1) for values in (other_run, first_run)
    ]
    variance = sum(mean_variance for mean_variance, _ in mean_variances)
    if variance <= (_MAX_ROUNDING_ERROR * np.abs((*other_run, *first_run)).max()) ** 2:
        # All rounds are equal up to rounding.
        return shift, shift
    degrees_of_freedom = variance**2 / sum(
        mean_variance**2 / degrees for mean_variance, degrees in mean_variances
    )
    half_width = float(t_quantile(degrees_of_freedom, 1 - ALPHA / 2) * np.sqrt(variance))
    return shift - half_width, shift + half_width


def _interval_or_none(differences: Rounds, alpha: float) -> tuple[float, float] | tuple[None, None]:
    return (None, None) if len(differences) < min_rounds(alpha) else interval(differences, alpha)


def interval(differences: Rounds, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the interval of the differences' centre of symmetry, for `min_rounds(alpha)` rounds or more."""
    return typical_interval(subset_means(differences), alpha)


def subset_means(values: Rounds) -> Estimates:
    """Return the mean of each subset of the rounds."""
    means: Estimates = (subsets(len(values)) @ values) / _subset_sizes(len(values))
    return means


@lru_cache
def _subset_sizes(rounds: int) -> npt.NDArray[np.float64]:
    sizes: npt.NDArray[np.float64] = subsets(rounds).sum(axis=1)
    return sizes


@lru_cache
def subsets(rounds: int) -> npt.NDArray[np.float64]:
    """Return the rounds of each subset as 0 or 1, (subsets, rounds): all but the empty one, or a sample."""
    if 2**rounds - 1 <= SUBSETS:
        return (np.arange(1, 2**rounds)[:, None] >> np.arange(rounds) & 1).astype(np.float64)
    # With a fixed seed, equal rounds have equal intervals.
    sample = np.random.default_rng(0).integers(0, 2, (SUBSETS, rounds))
    # Replace empty subsets, which have no mean.
    sample[~sample.any(axis=1)] = 1
    return sample.astype(np.float64)


def typical_interval(estimates: Estimates, alpha: float = ALPHA) -> tuple[float, float]:
    # n sorted estimates divide the number line into n + 1 gaps. The interval leaves out alpha / 2 of them
    # on either side: the first k gaps end at the k-th estimate.
    n_outside = int(alpha / 2 * (len(estimates) + 1))
    ordered = np.partition(estimates, (n_outside - 1, -n_outside))  # at these two places
    return float(ordered[n_outside - 1]), float(ordered[-n_outside])
