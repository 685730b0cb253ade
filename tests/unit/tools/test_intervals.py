"""The coverage of intervals on synthetic null hypotheses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from foundation.logs.columns import OPERATIONS
from tools.bench.intervals import (
    EFFECTS,
    METHODS,
    NULLS,
    ROUNDS,
    SYNTHETIC,
    Claimed,
    Rounds,
    claim_rates,
    cover,
    cover_until_narrow,
    main,
    recorded_null,
)

TRIALS = 400
OURS = METHODS["sign flips, log ratios"]


@pytest.mark.parametrize("rounds", [6, 10, 20])
@pytest.mark.parametrize("null", NULLS)
def test_the_reports_interval_covers(null: str, rounds: int) -> None:
    """95 % within three standard errors; for 6 rounds 97 %."""
    assert 0.917 < cover(OURS, NULLS[null], rounds, TRIALS).coverage < 0.99


@pytest.mark.parametrize(
    ("null", "goal"),
    [
        ("stalls", 0.2),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in (("quiet", 0.09), ("bad times", 0.1))),
    ],
)
def test_the_interval_covers_if_rounds_go_on_until_the_interval_is_narrow(null: str, goal: float) -> None:
    found = cover_until_narrow(OURS, NULLS[null], 30, TRIALS, goal)
    assert 0.917 < found.coverage < 0.98
    assert found.rounds < 28


@pytest.mark.soak
@pytest.mark.parametrize("method", ["percentile", "percentile, expanded", "BCa"])
def test_bootstrap_intervals_of_sums_do_not_cover(method: str) -> None:
    assert cover(METHODS[method], NULLS["stalls"], 20, TRIALS).coverage < 0.93


@pytest.mark.parametrize(
    ("method", "of_scipy", "level"),
    [
        ("percentile", "percentile", 0.95),
        # The level whose normal quantile is Student's, for 12 rounds, times sqrt(12 / 11).
        ("percentile, expanded", "percentile", 0.97849),
        ("BCa", "BCa", 0.95),
    ],
)
def test_bootstrap_intervals_equal_scipys(method: str, of_scipy: str, level: float) -> None:
    from scipy.stats import bootstrap  # here, so that one process of the tests spends 0.8 s on it, not all

    arm, baseline = _rounds()
    theirs = bootstrap(
        (arm, baseline), lambda x, y, axis: x.sum(axis) / y.sum(axis), paired=True, method=of_scipy,
        confidence_level=level, n_resamples=10_000, rng=1,
    ).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    assert METHODS[method](arm, baseline) == pytest.approx((theirs.low, theirs.high), abs=0.06 * width)


def test_students_interval_is_scipys_and_blocks_of_independent_rounds_have_its_width() -> None:
    from scipy.stats import ttest_1samp  # here, as above

    arm, baseline = _rounds()
    theirs = np.exp(ttest_1samp(np.log(arm / baseline), 0).confidence_interval())
    assert METHODS["t of log ratios"](arm, baseline) == pytest.approx(tuple(theirs))
    blocks = METHODS["block bootstrap of log ratios"](arm, baseline)
    assert blocks == pytest.approx(tuple(theirs), abs=0.3 * float(theirs[1] - theirs[0]))


def _rounds() -> tuple[Rounds, Rounds]:
    rng = np.random.default_rng(3)
    return rng.lognormal(0.1, 0.3, 12), rng.lognormal(0, 0.2, 12)


@pytest.mark.parametrize("rounds", [6, 10, 20])
@pytest.mark.parametrize("null", SYNTHETIC)
def test_equal_arms_are_claimed_to_differ_in_few_runs(null: str, rounds: int) -> None:
    """5 % by the interval within three standard errors; with the A/A repeat at most half of that."""
    found = claim_rates(SYNTHETIC[null], rounds, TRIALS, 0.0)
    assert found.by_rule <= found.by_interval / 2 and found.by_interval < 0.083


def test_real_differences_are_claimed_in_quiet_rounds() -> None:
    """The difference is twice the standard deviation of rounds."""
    assert claim_rates(SYNTHETIC["quiet"], 10, TRIALS, 0.2).by_rule > 0.8


def test_log_ratios_bear_half_the_width_of_sums_where_blocks_stall() -> None:
    sums, logs = (
        cover(METHODS[f"sign flips, {of}"], NULLS["stalls"], 20, TRIALS).width
        for of in ("ratio of sums", "log ratios")
    )
    assert logs < 0.65 * sums


def test_a_recorded_null_is_its_rounds_in_a_row_with_labels_at_random() -> None:
    arm, baseline = np.arange(10.0, 20), np.arange(30.0, 40)
    draw = recorded_null(arm, baseline)
    seen = set()
    for seed in range(20):
        one, other = draw(np.random.default_rng(seed), 4)
        assert sorted((one - 10) % 20) == sorted((other - 10) % 20)
        number = (one - 10) % 20 % 10
        assert (np.diff(number) % 10 == 1).all()
        seen |= {float(value) for value in one}
    assert seen & set(arm) and seen & set(baseline)


def test_the_table_has_synthetic_and_recorded_nulls(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    zeros = dict.fromkeys(OPERATIONS, 0)
    whole = {**zeros, "load": 0.5, "rpcs": 1, "measured": True}
    rows = [
        {**whole, "arm": arm, "op": op, "round": number, "latency_us": rng.lognormal()}
        for arm in ("baseline", "repeat", "offload")
        for op in ("pull", "push", "step")
        for number in range(8)
        for _ in range(3)
    ]
    run = tmp_path / "run"
    run.mkdir()
    pl.DataFrame(rows, schema_overrides={"round": pl.Int32}).write_parquet(run / "operations.parquet")
    output = CliRunner().invoke(main, [str(run), "--trials", "2"])
    assert output.exit_code == 0, output.output
    assert all(null in output.output for null in (*NULLS, "run, 0.5, push_p99", "until ±20%"))


def test_claims_are_printed_as_json() -> None:
    ran = CliRunner().invoke(main, ["--claims", "--json", "--trials", "20"], catch_exceptions=False)
    found = [Claimed(**row) for row in json.loads(ran.stdout)]
    kinds = [(name, rounds, effect) for name in SYNTHETIC for rounds in ROUNDS[:-1] for effect in EFFECTS]
    assert [(each.blocks, each.rounds, each.effect) for each in found] == kinds
    quiet = found[kinds.index(("quiet", 10, 0.5))]
    assert (quiet.by_interval, quiet.by_rule) == claim_rates(SYNTHETIC["quiet"], 10, 20, 0.5)


@pytest.mark.parametrize("words", [["--json"], ["--claims", "."]])
def test_options_that_contradict_each_other_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(main, words).exit_code == 2
