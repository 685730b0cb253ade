"""`python -m tools.bench.agreement`: what a report's interval covers, and how well two runs agree.

An interval is exact if an arm is as likely above another as below it. If one arm stalls more often than the
other, that holds of the median ratio of their blocks, and not of the mean that the report prints. And an
interval bounds the truth: another run's estimate, which has an error of its own, lies outside more often.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from analysis.statistics import subset_means, typical_interval
from tools.bench.intervals import SYNTHETIC, TRIALS, Rounds, SyntheticArms

ROUNDS = (12, 27)
"""Rounds of a run at its first look, and at its last one."""
STALLED = (1 / 16, 1 / 8, 1 / 4)
"""Shares of an arm's blocks that take longer, while none of the baseline's do."""
WIDER = sqrt(2)
"""Factor by which the difference of two independent estimates varies more than one of them."""
_SPREAD = 0.1
_STEPS = 1_000_000
_SEED = 1


class Uneven(NamedTuple):
    """Shares of intervals that contain a number, if only the arm stalls."""

    stalled: float
    rounds: int
    of_mean: float
    """The mean logarithm of the blocks' ratios, whose exponential a report prints."""
    of_median: float


class Agreement(NamedTuple):
    """Shares of pairs of runs in which each estimate lies within the bounds of the other run."""

    blocks: str
    rounds: int
    within: float
    within_wider: float
    """The bounds are `WIDER` times as far from the estimate."""


def mean_log_of_stall() -> float:
    """Return the mean logarithm of the factor by which a stalled block takes longer (`intervals.stalls`)."""
    quantiles = (np.arange(_STEPS) + 0.5) / _STEPS
    return float(np.log(1 + 3 * (quantiles ** (-1 / 1.5) - 1)).mean())


def uneven(stalled: float, rounds: int, trials: int) -> Uneven:
    rng, mean = np.random.default_rng(_SEED), stalled * mean_log_of_stall()
    bounds = []
    for _ in range(trials):
        factor = np.where(rng.random(rounds) < stalled, 1 + 3 * rng.pareto(1.5, rounds), 1)
        arm, baseline = rng.lognormal(0, _SPREAD, rounds) * factor, rng.lognormal(0, _SPREAD, rounds)
        bounds.append(typical_interval(subset_means(np.log(arm / baseline))))
    low, high = np.array(bounds).T
    median = _median_of_log(stalled)
    return Uneven(
        stalled,
        rounds,
        float(((low <= mean) & (mean <= high)).mean()),
        float(((low <= median) & (median <= high)).mean()),
    )


def _median_of_log(stalled: float) -> float:
    """Return the median logarithm of a block's ratio, by as many draws as the mean has steps."""
    rng = np.random.default_rng(_SEED)
    factor = np.where(rng.random(_STEPS) < stalled, 1 + 3 * rng.pareto(1.5, _STEPS), 1)
    return float(np.median(np.log(factor) + rng.normal(0, _SPREAD * sqrt(2), _STEPS)))


def agreement(name: str, arms: SyntheticArms, rounds: int, trials: int) -> Agreement:
    rng = np.random.default_rng(_SEED)
    pairs = np.array([[_run(*arms(rng, rounds, 2)) for _ in range(2)] for _ in range(trials)])
    return Agreement(name, rounds, _within_each_other(pairs, 1), _within_each_other(pairs, WIDER))


def _run(arm: Rounds, baseline: Rounds) -> tuple[float, float, float]:
    """Return the estimate of a run and its bounds, as logarithms."""
    logs = np.log(arm / baseline)
    return float(logs.mean()), *typical_interval(subset_means(logs))


def _within_each_other(pairs: Rounds, factor: float) -> float:
    """Return the share of pairs, [trials, 2, 3], whose estimates lie within each other's bounds."""
    estimate, low, high = np.moveaxis(pairs, 2, 0)
    other = estimate[:, ::-1]
    is_above = other >= estimate - factor * (estimate - low)
    is_below = other <= estimate + factor * (high - estimate)
    return float((is_above & is_below).all(axis=1).mean())


def unevens(trials: int) -> Iterator[Uneven]:
    return (uneven(stalled, rounds, trials) for stalled in STALLED for rounds in ROUNDS)


def agreements(trials: int) -> Iterator[Agreement]:
    return (agreement(name, arms, rounds, trials) for name, arms in SYNTHETIC.items() for rounds in ROUNDS)


@click.command()
@click.option("--trials", default=TRIALS, show_default=True, help="Number of trials of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(trials: int, as_json: bool) -> None:
    """Print how often intervals cover what a report prints, and how often two runs agree."""
    found = {
        "uneven": [each._asdict() for each in unevens(trials)],
        "agreement": [each._asdict() for each in agreements(trials)],
    }
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for rows in found.values():
        table = Table(*rows[0])
        for row in rows:
            table.add_row(*(f"{each:.3g}" if isinstance(each, float) else str(each) for each in row.values()))
        Console().print(table)


if __name__ == "__main__":
    main()
