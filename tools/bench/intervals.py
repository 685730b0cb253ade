"""`python -m tools.bench.intervals [RUN ...]`: compare the coverage of methods for 95 % intervals.

A null is two arms that do not differ: synthetic (quiet, with stalls, with long bad times), or arms *baseline*
and *repeat* of run folders. Each method gets the block estimates of both arms, and should leave out a ratio
of 1 in 5 % of cases. A round's blocks run in random order, so the labels of a round may be swapped, and one
recording yields many nulls.

A second table, the only one with `--claims`, says how often the report claims a difference if one arm takes
longer than the baseline by 0 or more, and a third arm, *repeat*, does not differ from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt
import polars as pl
from rich.console import Console
from rich.table import Table
from scipy.special import ndtr, ndtri, stdtrit

from analysis.metrics import METRICS, by_round, complete_rounds, goals
from analysis.record import scan_log
from analysis.statistics import compare_paired, subset_means, subsets, typical_interval
from analysis.verdict import Claim
from foundation.designs.hotset import BASELINE, REPEAT

Rounds = npt.NDArray[np.float64]
"""One estimate a round: (rounds,)."""
Bounds = tuple[float, float]
"""Bounds of the ratio of *repeat* to *baseline*."""
Method = Callable[[Rounds, Rounds], Bounds]
Null = Callable[[np.random.Generator, int], Iterable[Rounds]]
"""Called with a generator and rounds; returns an arm and the baseline, which do not differ."""
SyntheticArms = Callable[[np.random.Generator, int, int], Iterator[Rounds]]
"""Called with a generator, rounds and arms; yields the estimates of arms that do not differ."""

RESAMPLES = 2000
TRIALS = 1_000
"""Default number of nulls of each kind."""
_LOW_TAIL, _HIGH_TAIL = 0.025, 0.975  # quantiles that bound a 95 % interval
BLOCK = 3
"""Number of consecutive rounds in a block of the block bootstrap."""
ROUNDS = (6, 10, 20, 40)
MIN_ROUNDS = 10
_SEED = 1
_WIDTH = 200  # columns of the output
GOAL_HALF_WIDTHS = {"quiet": 0.08, "stalls": 0.2, "bad times": 0.1}
"""A run that waits for narrow intervals ends at these half widths, or after the last number of `ROUNDS`."""
EFFECTS = (0.0, 0.1, 0.2, 0.5)
"""True differences of an arm, as shares of the baseline."""
_CLAIMED_METRIC = METRICS["pull_mean"]  # any metric of which less is better


def percentile(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the plain bootstrap interval of the ratio of sums."""
    return _quantiles(_resampled_ratios(arm, baseline), _LOW_TAIL)


def expanded(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the percentile interval expanded to the width of Student's t (Hesterberg 2015)."""
    n = len(arm)
    return _quantiles(
        _resampled_ratios(arm, baseline), ndtr(stdtrit(n - 1, _LOW_TAIL) * np.sqrt(n / (n - 1)))
    )


def bca(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the bias-corrected and accelerated percentile interval (Efron 1987)."""
    ratios, estimate = _resampled_ratios(arm, baseline), arm.sum() / baseline.sum()
    # The bounds keep both numbers finite, if all ratios are on one side or equal.
    bias = ndtri(np.clip((ratios < estimate).mean(), 1e-3, 1 - 1e-3))
    jackknife = (arm.sum() - arm) / (baseline.sum() - baseline)
    spread = jackknife.mean() - jackknife
    acceleration = (spread**3).sum() / (6 * max((spread**2).sum(), 1e-300) ** 1.5)
    tails = [
        ndtr(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in ndtri([_LOW_TAIL, _HIGH_TAIL])
    ]
    low, high = np.quantile(ratios, tails)
    return float(low), float(high)


def student_of_logs(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the interval of Student's t on the rounds' log ratios."""
    logs = np.log(arm / baseline)
    half = stdtrit(len(logs) - 1, _HIGH_TAIL) * logs.std(ddof=1) / np.sqrt(len(logs))
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def blocks_of_logs(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the interval of a moving-block bootstrap of the mean log ratio (Künsch 1989), expanded."""
    logs, n = np.log(arm / baseline), len(arm)
    starts = _generator().integers(0, n - BLOCK + 1, (RESAMPLES, -(-n // BLOCK)))  # rounded up
    indices = (starts[:, :, None] + np.arange(BLOCK)).reshape(RESAMPLES, -1)[:, :n]
    tail = ndtr(stdtrit(n - 1, _LOW_TAIL) * np.sqrt(n / (n - 1)))
    low, high = _quantiles(logs[indices].mean(axis=1), tail)
    return float(np.exp(low)), float(np.exp(high))


def sign_flips_of_sums(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the interval of typical values (Hartigan 1969): ratios of the sums of subsets of the rounds."""
    is_in_subset = subsets(len(arm))
    return typical_interval((is_in_subset @ arm) / (is_in_subset @ baseline))


def sign_flips_of_logs(arm: Rounds, baseline: Rounds) -> Bounds:
    """Return the interval of typical values, as the report does: mean log ratios of subsets of the rounds."""
    low, high = typical_interval(subset_means(np.log(arm / baseline)))
    return float(np.exp(low)), float(np.exp(high))


METHODS: dict[str, Method] = {
    "percentile": percentile,
    "percentile, expanded": expanded,
    "BCa": bca,
    "t of log ratios": student_of_logs,
    "block bootstrap of log ratios": blocks_of_logs,
    "sign flips, ratio of sums": sign_flips_of_sums,
    "sign flips, log ratios": sign_flips_of_logs,
}


def quiet(rng: np.random.Generator, rounds: int, arms: int) -> Iterator[Rounds]:
    """Yield arms whose rounds vary by 10 %, and the blocks in a round by another 10 %."""
    round_factor = rng.lognormal(0, 0.1, rounds)
    for _ in range(arms):
        yield round_factor * rng.lognormal(0, 0.1, rounds)


def stalls(rng: np.random.Generator, rounds: int, arms: int) -> Iterator[Rounds]:
    """Yield arms in which one block in eight takes longer, by a factor with a heavy tail."""
    for _ in range(arms):
        stalled = rng.random(rounds) < 1 / 8
        yield rng.lognormal(0, 0.1, rounds) * np.where(stalled, 1 + 3 * rng.pareto(1.5, rounds), 1)


def bad_times(rng: np.random.Generator, rounds: int, arms: int) -> Iterator[Rounds]:
    """Yield arms with a drift, and bad times of five rounds on average, in which blocks are slower."""
    is_bad = np.empty(rounds, bool)
    is_bad[0] = rng.random() < 1 / 4
    for number in range(1, rounds):
        is_bad[number] = rng.random() < (0.8 if is_bad[number - 1] else 1 / 15)
    drift = np.exp(np.cumsum(rng.normal(0, 0.05, rounds)))
    spread = np.where(is_bad, 1.0, 0.1)
    round_factor = drift * np.where(is_bad, 3.0, 1.0)
    for _ in range(arms):
        yield round_factor * rng.lognormal(0, spread)


SYNTHETIC: dict[str, SyntheticArms] = {"quiet": quiet, "stalls": stalls, "bad times": bad_times}


def _two_arms(synthetic: SyntheticArms) -> Null:
    return lambda rng, rounds: synthetic(rng, rounds, 2)


NULLS = {name: _two_arms(synthetic) for name, synthetic in SYNTHETIC.items()}


def recorded_null(arm: Rounds, baseline: Rounds) -> Null:
    def draw(rng: np.random.Generator, rounds: int) -> tuple[Rounds, Rounds]:
        indices = (rng.integers(len(arm)) + np.arange(rounds)) % len(arm)
        is_swapped = rng.random(rounds) < 0.5
        return (
            np.where(is_swapped, baseline[indices], arm[indices]),
            np.where(is_swapped, arm[indices], baseline[indices]),
        )

    return draw


class Coverage(NamedTuple):
    coverage: float
    """Share of intervals that contain 1."""
    width: float
    """Median half width."""
    rounds: float  # mean number


def cover(method: Method, null: Null, rounds: int, trials: int) -> Coverage:
    rng = np.random.default_rng(_SEED)
    bounds = np.array([method(*null(rng, rounds)) for _ in range(trials)])
    return _cover(bounds, np.full(trials, rounds))


def cover_until_narrow(method: Method, null: Null, rounds: int, trials: int, goal: float) -> Coverage:
    """Return the coverage if a run ends when the half width is below the goal, or after `rounds`."""
    rng = np.random.default_rng(_SEED)
    bounds, rounds_taken = [], []
    for _ in range(trials):
        arm, baseline = null(rng, rounds)
        for n in range(MIN_ROUNDS, rounds + 1):
            low, high = method(arm[:n], baseline[:n])
            if high - low < 2 * goal:
                break
        bounds.append((low, high))
        rounds_taken.append(n)
    return _cover(np.array(bounds), np.array(rounds_taken))


def _cover(bounds: npt.NDArray[np.float64], rounds: npt.NDArray[np.integer]) -> Coverage:
    low, high = bounds.T
    return Coverage(
        float(((low <= 1) & (high >= 1)).mean()), float(np.median(high - low) / 2), float(rounds.mean())
    )


class ClaimRates(NamedTuple):
    """Share of cases in which a difference is claimed."""

    by_interval: float
    """If the interval alone decides."""
    by_rule: float
    """By the report's rule: *repeat* must also differ less from the baseline than the arm."""


def claim_rates(arms: SyntheticArms, rounds: int, trials: int, effect: float) -> ClaimRates:
    """Return how often an arm that takes longer by `effect`, a share, is claimed to differ."""
    rng = np.random.default_rng(_SEED)
    is_claimed = []
    for _ in range(trials):
        arm, baseline, repeat = arms(rng, rounds, 3)
        difference, null = (compare_paired(each, baseline) for each in ((1 + effect) * arm, repeat))
        is_claimed.append([Claim(_CLAIMED_METRIC, difference, null=each).sign != 0 for each in (None, null)])
    return ClaimRates(*np.array(is_claimed).mean(axis=0).tolist())


class Claimed(NamedTuple):
    """How often a difference is claimed in one kind of blocks."""

    blocks: str
    rounds: int
    effect: float  # the true difference, as a share of the baseline
    by_interval: float
    by_rule: float


def claims(trials: int) -> Iterator[Claimed]:
    for name, synthetic in SYNTHETIC.items():
        for rounds in ROUNDS[:-1]:
            for effect in EFFECTS:
                yield Claimed(name, rounds, effect, *claim_rates(synthetic, rounds, trials, effect))


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


def _resampled_ratios(arm: Rounds, baseline: Rounds) -> npt.NDArray[np.float64]:
    counts = _resample_counts(len(arm))
    ratios: npt.NDArray[np.float64] = (counts @ arm) / (counts @ baseline)
    return ratios


@cache
def _resample_counts(n: int) -> npt.NDArray[np.float64]:
    """Return how often each of n rounds is in each resample [RESAMPLES, n]."""
    return _generator().multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float64)


def _quantiles(samples: npt.NDArray[np.float64], tail: float) -> Bounds:
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)


def nulls_of(run: Path) -> Iterator[tuple[str, Null]]:
    """Yield the recorded nulls of a run folder: mean and p99 of the pulls and pushes at each load."""
    operations = scan_log(run, "operations").filter("measured").collect()
    exact_load = pl.col("load").cast(pl.Float64).round(6)  # the log has float32
    for (load,), at_load in sorted(operations.group_by(exact_load)):
        arms = [REPEAT.name, BASELINE.name]
        rounds = complete_rounds(at_load.filter(pl.col("arm").is_in(arms)), arms)
        wanted = [METRICS[name] for name in goals()]
        repeat, baseline = by_round("operations", at_load, arms, rounds, wanted).values()
        for metric in repeat:
            yield f"{run.name}, {load:g}, {metric}", recorded_null(repeat[metric], baseline[metric])


@click.command()
@click.argument("runs", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--trials", default=TRIALS, show_default=True, help="Number of nulls of each kind.")
@click.option("--claims", "only_claims", is_flag=True, help="Only count how often a difference is claimed.")
@click.option("--json", "as_json", is_flag=True, help="With --claims: print JSON.")
def main(runs: tuple[Path, ...], trials: int, only_claims: bool, as_json: bool) -> None:
    """Print how often each method's interval contains the true ratio, for synthetic nulls and RUNS."""
    if as_json and not only_claims:
        raise click.UsageError("--json needs --claims")
    if runs and only_claims:
        raise click.UsageError(f"--claims generates its nulls: leave out {runs[0]}")
    if not only_claims:
        _print_coverage(runs, trials)
    claimed = list(claims(trials))
    if as_json:
        print(json.dumps([each._asdict() for each in claimed], indent=2))
    else:
        _print_claims(claimed)


def _print_coverage(runs: tuple[Path, ...], trials: int) -> None:
    table = Table("null", "rounds", *METHODS)
    nulls = [*NULLS.items(), *(null for run in runs for null in nulls_of(run))]
    for name, null in nulls:
        for rounds in ROUNDS[:-1]:
            table.add_row(
                name, str(rounds), *(_cell(cover(f, null, rounds, trials)) for f in METHODS.values())
            )
        if name in GOAL_HALF_WIDTHS:
            goal = GOAL_HALF_WIDTHS[name]
            coverages = [cover_until_narrow(f, null, ROUNDS[-1], trials, goal) for f in METHODS.values()]
            table.add_row(name, f"until ±{goal:.0%}", *map(_cell, coverages))
    Console(width=_WIDTH).print(table)


def _print_claims(claimed: list[Claimed]) -> None:
    table = Table("claimed: by interval, by rule", "rounds", *(f"+{effect:.0%}" for effect in EFFECTS))
    for (name, rounds), group in groupby(claimed, key=lambda each: (each.blocks, each.rounds)):
        table.add_row(name, str(rounds), *(f"{each.by_interval:.1%}, {each.by_rule:.1%}" for each in group))
    Console(width=_WIDTH).print(table)


def _cell(coverage: Coverage) -> str:
    return f"{coverage.coverage:.1%} ±{coverage.width:.1%}"


if __name__ == "__main__":
    main()
