"""Paired differences of two arms over rounds, with intervals that cover.

RPCs of one round are anything but independent, so a round gives one estimate for each arm, of its block,
and what is compared is rounds: the mean of their log ratios. A round that took ten times as long counts no
more than another.

The order of a round's blocks is random. So where nothing differs, each round's log ratio is as likely to
have the other sign, whatever happens to the machine, however skewed it is and however long it lasts.
Intervals invert that: the means over all subsets of the rounds are typical values (Hartigan, "Using
subsample values as typical values", 1969), and the truth is as likely to lie between any two neighbours of
them as between any other two. docs/intervals.md compares these intervals with others.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict
from scipy.special import stdtrit

Rounds = npt.NDArray[np.float64]
"""One estimate a round: (rounds,)."""
Estimates = npt.NDArray[np.float64]
"""One estimate a subset: (subsets,)."""

SUBSETS = 4095
"""All of 12 rounds; of more rounds as many at random."""
TAIL = 0.025
_ROUNDING = 1e-12
MIN_ROUNDS = 6
"""Of n rounds there are 2^n - 1 subsets: with 5 even the widest interval is one of 94 %."""


class Comparison(BaseModel):
    """An arm's estimate against the baseline's, with 95 % intervals; None where there is no such number.

    Estimates are geometric means over rounds, and bounds of the difference are those of the ratio times the
    baseline; where there is 0 in some round, they are arithmetic, and the ratio's bounds the difference's.
    """

    model_config = ConfigDict(frozen=True)

    baseline: float
    value: float
    difference: float
    """`value` - `baseline`, and below its bounds, all in the metric's unit."""
    low: float | None
    high: float | None
    ratio: float | None
    """`value` / `baseline` - 1, and below its bounds."""
    ratio_low: float | None
    ratio_high: float | None

    @property
    def sign(self) -> int:
        """On which side of 0 the whole interval of the ratio is: -1, 1, or 0 for none."""
        if self.ratio_low is None or self.ratio_high is None:
            return 0
        return int(self.ratio_low > 0) - int(self.ratio_high < 0)

    @property
    def half_width(self) -> float | None:
        """Of the ratio's interval."""
        if self.ratio_low is None or self.ratio_high is None:
            return None
        return (self.ratio_high - self.ratio_low) / 2


def compare_paired(arm: Rounds, baseline: Rounds, with_interval: bool = True) -> Comparison:
    """`arm` against `baseline`, both (rounds,): their difference and their ratio.

    There are no intervals for fewer rounds than `MIN_ROUNDS`, nor without `with_interval`, and no ratio to 0.
    """
    with_interval = with_interval and len(arm) >= MIN_ROUNDS
    if (arm > 0).all() and (baseline > 0).all():
        return _geometric(arm, baseline, with_interval)
    return _arithmetic(arm, baseline, with_interval)


def _geometric(arm: Rounds, baseline: Rounds, with_interval: bool) -> Comparison:
    logs = np.log(arm / baseline)
    low, high = interval(logs) if with_interval else (None, None)
    return of_logs(np.log(baseline).mean(), logs.mean(), low, high)


def of_logs(baseline: float, shift: float, low: float | None, high: float | None) -> Comparison:
    """From logarithms: of the baseline, and of the ratio with its bounds."""
    reference, ratio = float(np.exp(baseline)), float(np.expm1(shift))
    ratio_low, ratio_high = (None if bound is None else float(np.expm1(bound)) for bound in (low, high))
    return Comparison(
        baseline=reference,
        value=reference * (1 + ratio),
        difference=reference * ratio,
        low=None if ratio_low is None else reference * ratio_low,
        high=None if ratio_high is None else reference * ratio_high,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def _arithmetic(arm: Rounds, baseline: Rounds, with_interval: bool) -> Comparison:
    reference, difference = float(baseline.mean()), float((arm - baseline).mean())
    low, high = interval(arm - baseline) if with_interval else (None, None)
    ratio, ratio_low, ratio_high = (
        None if bound is None or not reference else bound / reference for bound in (difference, low, high)
    )
    return Comparison(
        baseline=reference,
        value=reference + difference,
        difference=difference,
        low=low,
        high=high,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def compare_unpaired(other: Rounds, first: Rounds) -> Comparison:
    """`other` (rounds,) against `first` (rounds,) of another run, with Welch's interval of the log ratio.

    There is no interval for fewer rounds than `MIN_ROUNDS` of either, nor a ratio where there is 0 in some.
    """
    if not ((other > 0).all() and (first > 0).all()):
        return _arithmetic_unpaired(other, first)
    logs, reference = np.log(other), np.log(first)
    return of_logs(reference.mean(), logs.mean() - reference.mean(), *_welch(logs, reference))


def _arithmetic_unpaired(other: Rounds, first: Rounds) -> Comparison:
    reference, value = float(first.mean()), float(other.mean())
    low, high = _welch(other, first)
    return Comparison(
        baseline=reference,
        value=value,
        difference=value - reference,
        low=low,
        high=high,
        ratio=None,
        ratio_low=None,
        ratio_high=None,
    )


def _welch(other: Rounds, first: Rounds) -> tuple[float | None, float | None]:
    """The 95 % interval of the difference of two means of unlike spread."""
    if min(len(other), len(first)) < MIN_ROUNDS:
        return None, None
    shift = float(other.mean() - first.mean())
    parts = [(values.var(ddof=1) / len(values), len(values) - 1) for values in (other, first)]
    variance = sum(part for part, _ in parts)
    if variance <= (_ROUNDING * np.abs((*other, *first)).max()) ** 2:
        # All rounds are alike, but for the last bits.
        return shift, shift
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    reach = float(stdtrit(freedom, 1 - TAIL) * np.sqrt(variance))
    return shift - reach, shift + reach


def interval(differences: Rounds) -> tuple[float, float]:
    """The 95 % interval of what differences of rounds are symmetric about; of `MIN_ROUNDS` at least."""
    counts = subsets(len(differences))
    return typical((counts @ differences) / counts.sum(axis=1))


@lru_cache
def subsets(rounds: int) -> npt.NDArray[np.float64]:
    """Which rounds are in each subset: 0 or 1, (subsets, rounds); all but the empty one, or some of them."""
    if 2**rounds - 1 <= SUBSETS:
        return (np.arange(1, 2**rounds)[:, None] >> np.arange(rounds) & 1).astype(np.float64)
    drawn = np.random.default_rng(0).integers(0, 2, (SUBSETS, rounds))
    # An empty one is as unlikely as any other, and has no mean.
    drawn[~drawn.any(axis=1)] = 1
    return drawn.astype(np.float64)


def typical(estimates: Estimates) -> tuple[float, float]:
    """The 95 % interval that typical values bound."""
    ordered = np.sort(estimates)
    outside = int(TAIL * (len(ordered) + 1))
    return float(ordered[outside - 1]), float(ordered[-outside])
