"""Rounds end at a look, with narrow intervals, at their number or with the budget, by a clock set by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.metrics import MIN_ROUNDS_FOR_PRECISION
from analysis.record import Block, ServerUse
from analysis.stopping import LOOKS
from experiment.phases.rounds import RoundCount
from experiment.run_config import Config
from switch_harness.effort import steps
from tests.harness.arms import MEASURED as ARMS
from tests.harness.records import a_block, operation_rows
from tools.bench.nulls import ARMS as NULL_ARMS
from tools.bench.nulls import Recording, null_run, rates

Factor = Callable[[int, str], float]
"""Returns the factor of an arm's latency in a round."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def alike(number: int, arm: str) -> float:
    return 1.0


def alternating(spread: float, slow: str = "offload") -> Factor:
    """Return a factor by which one arm is slower and faster in turn."""
    return lambda number, arm: float(np.exp(spread * (-1) ** number)) if arm == slow else 1.0


def noisy(spread: float, shift: float = 0.0) -> Factor:
    """Return a factor that is noise for every arm, and a difference for *offload*."""
    rng = np.random.default_rng(1)
    return lambda number, arm: float(np.exp(rng.normal(0, spread) + (shift if arm == "offload" else 0)))


def operations(number: int, loads: Sequence[float], factor: Factor) -> pl.DataFrame:
    factors = {arm: factor(number, arm) for arm in ARMS}
    frames = [
        operation_rows(arm, number, load, (100.0 if measured else 1e6) * factors[arm], measured)
        for load in loads
        for arm in ARMS
        for measured in (True, True, False)
    ]
    return pl.concat(frames)


def block(number: int, arm: str, load: float) -> Block:
    """A block with half of the baseline's packets in offload, and the same CPU time."""
    packets = 50 if arm == "offload" else 100
    servers = ServerUse(packets=packets, bytes=packets, cpu_s=1.0)
    return a_block(number, arm, load, servers=servers, worker_cpu_s=1.0)


def rounds_until_the_end(
    config: Config, factor: Factor, round_s: float, between_s: float = 0.0
) -> tuple[int, str, float]:
    """Return the number of rounds, the reason to end, and the error rate of the intervals."""
    clock = Clock()
    rounds = RoundCount(config, clock)
    blocks = list[Block]()
    while True:
        clock.now += round_s
        blocks += [block(rounds.done, arm, load) for load in config.loads for arm in ARMS]
        end = rounds.end(operations(rounds.done, config.loads, factor), blocks)
        if end is not None:
            return rounds.done, end, rounds.alpha
        clock.now += between_s
        rounds.exclude_from_budget(between_s)


@pytest.mark.parametrize(
    ("factor", "round_s", "expected"),
    [
        # Packets are claimed, and all else is narrow.
        (alike, 1.0, (12, "decided", 0.02)),
        # A large difference is claimed through much noise.
        (noisy(0.2, -1.0), 1.0, (12, "decided", 0.02)),
        # Without a difference, no number of rounds makes such intervals narrow.
        (noisy(0.5), 1.0, (12, "futility", 0.02)),
        # The next look would end after the budget of 100 s.
        (noisy(0.04), 6.0, (12, "budget", 0.02)),
        # It would end after the later looks' share of the budget; the first look has all of it.
        (noisy(0.04), 3.7, (12, "budget", 0.02)),
        (noisy(0.04), 8.3, (12, "budget", 0.02)),
        (noisy(0.04), 3.6, (18, "decided", 0.01)),
        # Too slow for the first look: as many rounds as fit, at the error rate of a single look.
        (alternating(5.0), 9.0, (11, "budget", 0.05)),
        (alike, 30.0, (3, "budget", 0.05)),
        (alike, 101.0, (1, "budget", 0.05)),
    ],
)
def test_rounds_end_at_a_look_or_with_the_budget(
    factor: Factor, round_s: float, expected: tuple[int, str, float]
) -> None:
    assert rounds_until_the_end(Config(budget_s=100.0), factor, round_s) == expected


def test_rounds_go_on_to_the_look_that_decides() -> None:
    """±3.5 % a round are not ±3 % after 12 rounds, but after more."""
    done, end, alpha = rounds_until_the_end(Config(), alternating(0.035), 1.0)
    assert (end, alpha) == ("decided", dict(LOOKS)[done])
    assert done > LOOKS[0].rounds


def test_other_loads_and_arms_do_not_delay_the_end() -> None:
    wide_elsewhere = rounds_until_the_end(Config(), alternating(0.5, "offload-proxy"), 1.0)
    assert wide_elsewhere == (12, "decided", 0.02)


@pytest.mark.parametrize("slow", ["baseline", "repeat", "proxy", "offload", "offload-proxy"])
def test_precise_rounds_end_when_every_arm_is_narrow(slow: str) -> None:
    """±5 % a round: some 5 % / √n × 2 of n rounds."""
    done, end, alpha = rounds_until_the_end(Config(precise=True), alternating(0.05, slow), 1.0)
    assert (end, alpha) == ("precision", 0.05)
    assert MIN_ROUNDS_FOR_PRECISION < done < 25


def test_precise_rounds_have_a_separate_budget() -> None:
    assert rounds_until_the_end(Config(precise=True), alternating(5.0), 40.0)[:2] == (15, "budget")


def test_calibration_and_checks_do_not_count_in_the_budget() -> None:
    config = Config(budget_s=100.0)
    assert rounds_until_the_end(config, alternating(5.0), 14.0, between_s=20.0)[:2] == (7, "budget")


def test_a_requested_number_of_rounds_ignores_the_time_budget() -> None:
    clock = Clock()
    rounds = RoundCount(Config(rounds=2, budget_s=1.0), clock)
    clock.now += 50
    assert rounds.has_time and rounds.planned == 2
    assert rounds.share_done(0.5) == 0.25
    assert rounds.end(None, ()) is None
    assert (rounds.share_done(), rounds.is_halfway, rounds.end(None, ())) == (0.5, True, "rounds")


def test_progress_is_the_spent_share_of_the_budget() -> None:
    clock = Clock()
    rounds = RoundCount(Config(budget_s=50.0), clock)
    clock.now += 20
    assert (rounds.spent_s, rounds.share_done(), rounds.has_time) == (20, 0.4, True)
    clock.now += 40
    assert (rounds.share_done(), rounds.has_time, rounds.planned) == (1, False, LOOKS[0].rounds)


def recorded(rng: np.random.Generator, rounds: int) -> Recording:
    """Draw heavy-tailed blocks: some rounds are slow for all arms, some blocks ten times slower."""
    metrics = ("pull_mean", "push_mean", "step_mean", "ps_cpu_us_per_step", "worker_cpu_us_per_step")
    of_round = rng.lognormal(0, 0.5, rounds)
    fixed: dict[str, Any] = dict.fromkeys(
        ("ps_packets_per_step", "ps_bytes_per_step", "rpcs_per_step"), np.ones(rounds)
    )

    def blocks() -> np.ndarray[Any, Any]:
        return of_round * rng.lognormal(0, 0.15, rounds) * np.where(rng.random(rounds) < 0.05, 10.0, 1.0)

    return {arm: {**{name: blocks() for name in metrics}, **fixed} for arm in ("baseline", "repeat", "proxy")}


def test_null_runs_claim_differences_in_at_most_5_percent() -> None:
    """Through the code that ends real runs: at most 5 % for each metric, within three standard errors."""
    rng = np.random.default_rng(7)
    recordings = [recorded(rng, 30) for _ in range(5)]
    runs = [null_run(recordings[k % 5], rng) for k in range(steps(400))]
    found = rates(runs)
    assert set(NULL_ARMS) == {"baseline", "repeat", "offload"}
    standard_error = np.sqrt(0.05 * 0.95 / len(runs))
    assert max(rate for name, rate in found.items() if name != "any") < 0.05 + 3 * standard_error
    assert {run.ended_by for run in runs} <= {"decided", "futility"}
    assert all(run.rounds in dict(LOOKS) for run in runs)
