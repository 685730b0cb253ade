"""Trials of what intervals cover, and of how well two runs agree."""

from __future__ import annotations

import json
from math import log

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.statistics import compare_paired
from tools.bench import agreement
from tools.bench.agreement import ROUNDS, STALLED, WIDER, Agreement, Uneven, main
from tools.bench.intervals import SYNTHETIC


def test_intervals_of_equal_arms_cover_the_mean_and_the_median() -> None:
    found = agreement.uneven(0.0, 12, 400)
    assert 0.92 < found.of_mean == found.of_median < 0.98


def test_intervals_cover_the_mean_less_often_if_only_the_arm_stalls() -> None:
    found = agreement.uneven(1 / 8, 12, 400)
    assert found.of_mean < 0.9 < found.of_median


def test_draws_of_stalls_have_the_mean_logarithm() -> None:
    draws = np.log(1 + 3 * np.random.default_rng(5).pareto(1.5, 1_000_000))
    assert agreement.mean_log_of_stall() == pytest.approx(draws.mean(), abs=0.005)


def test_a_run_has_the_bounds_of_its_report() -> None:
    rng = np.random.default_rng(3)
    arm, baseline = SYNTHETIC["quiet"](rng, 12, 2)
    reported = compare_paired(arm, baseline)
    assert reported.ratio is not None and reported.ratio_low is not None and reported.ratio_high is not None
    expected = (log(1 + each) for each in (reported.ratio, reported.ratio_low, reported.ratio_high))
    assert agreement._run(arm, baseline) == pytest.approx((*expected,))


@pytest.mark.parametrize(
    ("other", "factor", "expected"),
    [(0.9, 1.0, 1.0), (1.2, 1.0, 0.0), (1.2, WIDER, 1.0), (1.5, WIDER, 0.0), (-1.2, 1.0, 0.0)],
)
def test_estimates_agree_if_each_is_within_the_bounds_of_the_other(
    other: float, factor: float, expected: float
) -> None:
    pair = [[0.0, -1.0, 1.0], [other, other - 2, other + 2]]
    assert agreement._within_each_other(np.array([pair]), factor) == expected
    assert agreement._within_each_other(np.array([pair[::-1]]), factor) == expected


def test_the_trials_are_printed_as_json_and_as_tables() -> None:
    ran = CliRunner().invoke(main, ["--trials", "5", "--json"], catch_exceptions=False)
    found = json.loads(ran.stdout)
    unevens = [Uneven(**row) for row in found["uneven"]]
    agreements = [Agreement(**row) for row in found["agreement"]]
    assert [(each.stalled, each.rounds) for each in unevens] == [(s, n) for s in STALLED for n in ROUNDS]
    assert [(each.blocks, each.rounds) for each in agreements] == [(k, n) for k in SYNTHETIC for n in ROUNDS]
    shown = CliRunner().invoke(main, ["--trials", "5"], catch_exceptions=False).stdout
    assert all(name in shown for name in (*SYNTHETIC, "of_median"))
