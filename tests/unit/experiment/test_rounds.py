"""When there have been enough rounds, by a clock that is set."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from analysis.metrics import MIN_ROUNDS_FOR_PRECISION
from experiment.config import Config
from experiment.phases.rounds import RoundCount
from foundation.logs.columns import OPS
from tests.harness.arms import MEASURED as ARMS


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def operations(number: int, loads: tuple[float, ...], spread: float, slow: str = "proxy") -> pl.DataFrame:
    """A round in which one arm is slower or faster by a spread, turn and turn about."""
    factor = {slow: np.exp(spread * (-1) ** number)}
    rows = [
        {
            "arm": arm,
            "op": op,
            "round": number,
            "load": np.float32(load),
            "latency_us": (100.0 if measured else 1e6) * factor.get(arm, 1.0),
            "rpcs": 1,
            "measured": measured,
        }
        for load in loads
        for arm in ARMS
        for op in OPS
        for measured in (True, True, False)
    ]
    return pl.DataFrame(rows, schema_overrides={"round": pl.Int32, "load": pl.Float32})


def rounds_until_the_end(
    config: Config, spread: float, round_s: float, slow: str = "proxy", steps_out_s: float = 0.0
) -> tuple[int, str]:
    clock = Clock()
    rounds = RoundCount(config, clock)
    while True:
        clock.now += round_s
        end = rounds.end(operations(rounds.done, config.loads, spread, slow))
        if end is not None:
            return rounds.done, end
        clock.now += steps_out_s
        rounds.exclude(steps_out_s)


@pytest.mark.parametrize(
    ("spread", "round_s", "expected"),
    [
        (0.0, 1.0, (MIN_ROUNDS_FOR_PRECISION, "precision")),
        # So many rounds as fit into 100 s, whatever is left over.
        (5.0, 7.0, (14, "budget")),
        (5.0, 10.0, (10, "budget")),
        (0.0, 30.0, (3, "budget")),
        (0.0, 101.0, (1, "budget")),
    ],
)
def test_rounds_end_when_intervals_are_narrow_or_with_the_budget(
    spread: float, round_s: float, expected: tuple[int, str]
) -> None:
    assert rounds_until_the_end(Config(), spread, round_s) == expected


@pytest.mark.parametrize("slow", ["baseline", "repeat", "proxy", "offload", "offload-proxy"])
def test_every_arm_has_to_be_narrow_and_more_rounds_make_it_so(slow: str) -> None:
    """±5 % a round: some 5 % / √n × 2 of n rounds."""
    done, end = rounds_until_the_end(Config(), 0.05, 1.0, slow)
    assert end == "precision"
    assert MIN_ROUNDS_FOR_PRECISION < done < 25


def test_what_is_no_round_is_not_of_the_budget() -> None:
    assert rounds_until_the_end(Config(), 5.0, 10.0, steps_out_s=20.0) == (10, "budget")


def test_rounds_that_were_asked_for_are_counted_alone() -> None:
    clock = Clock()
    rounds = RoundCount(Config(rounds=2, budget_s=1.0), clock)
    clock.now += 50
    assert rounds.has_time and rounds.planned == 2
    assert rounds.share_done(0.5) == 0.25
    assert rounds.end(None) is None
    assert (rounds.share_done(), rounds.end(None)) == (0.5, "rounds")


def test_how_much_of_the_budget_has_gone() -> None:
    clock = Clock()
    rounds = RoundCount(Config(budget_s=50.0), clock)
    clock.now += 20
    assert (rounds.spent_s, rounds.share_done(), rounds.has_time) == (20, 0.4, True)
    clock.now += 40
    assert (rounds.share_done(), rounds.has_time, rounds.planned) == (1, False, MIN_ROUNDS_FOR_PRECISION)
