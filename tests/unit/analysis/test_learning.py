"""The mean log loss of arms against the baseline's, on made-up courses of training."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest

from analysis.learning import learning
from analysis.record import Block
from analysis.summary import summarise
from tests.unit.analysis.synthetic import SyntheticRun, block

ROUNDS, LOADS = 4, (0.5, 0.8)
STUDENT_T = {2: 4.30265273, 3: 3.18244631}
"""97.5 % quantiles of Student's t-distribution, by degrees of freedom."""


def blocks(**courses: float) -> list[Block]:
    """Return blocks with a loss of each arm, given by its logarithm."""
    return [
        block(number, load, arm).model_copy(update={"loss": exp(course)})
        for number in range(ROUNDS)
        for load in LOADS
        for arm, course in courses.items()
    ]


def test_the_interval_is_students_of_the_spread_of_arms_that_train_alike() -> None:
    """Without offload 0, 0.2 and 0.1; with it 0.5 and 0.3: squares of 0.02 each, of 3 degrees of freedom."""
    found = learning(blocks(baseline=0, repeat=0.2, proxy=0.1, offload=0.5, **{"offload-proxy": 0.3}))
    reach = STUDENT_T[3] * sqrt(2 * 0.04 / 3)
    offload = found["offload"]
    assert offload.ratio_low is not None and offload.ratio_high is not None
    assert (offload.reference, offload.value) == pytest.approx((1, exp(0.5)))
    assert (offload.ratio_low, offload.ratio_high) == pytest.approx(
        (exp(0.5 - reach) - 1, exp(0.5 + reach) - 1)
    )
    assert list(found) == ["repeat", "proxy", "offload", "offload-proxy"]


def test_an_arm_like_the_baseline_does_not_count_in_its_own_spread() -> None:
    """*baseline* and *proxy*, and *offload* and *offload-proxy*, differ by squares of 0.005 and 0.02."""
    found = learning(blocks(baseline=0, repeat=9, proxy=0.1, offload=0.5, **{"offload-proxy": 0.3}))["repeat"]
    reach = STUDENT_T[2] * sqrt(2 * 0.025 / 2)
    assert found.ratio_low == pytest.approx(exp(9 - reach) - 1)


@pytest.mark.parametrize("arms", [{"baseline": 0, "offload": 0.1}, {"baseline": 0, "repeat": 0.1}])
def test_without_a_repetition_there_is_no_interval(arms: dict[str, float]) -> None:
    [found] = learning(blocks(**arms)).values()
    assert found.ratio == pytest.approx(exp(0.1) - 1)
    assert found.ratio_low is found.ratio_high is None


def test_in_a_simulation_the_loss_has_no_interval() -> None:
    found = learning(blocks(baseline=0, repeat=0, offload=0.1), with_interval=False)
    assert found["offload"].ratio_low is None


def test_equal_training_is_seldom_claimed_to_differ() -> None:
    rng = np.random.default_rng(3)
    reported = 0
    for _ in range(300):
        arms = ("baseline", "repeat", "proxy", "offload", "offload-proxy")
        courses = dict(zip(arms, rng.normal(0, 0.02, 5), strict=True))
        reported += learning(blocks(**courses))["offload"].sign != 0
    # 5 % and three standard errors.
    assert reported <= 27


def test_the_loss_of_a_round_does_not_depend_on_the_order_of_its_loads() -> None:
    """The first block of an arm finds a model that knows less; over both loads that is the same for all."""
    found = blocks(baseline=0, offload=0)
    for each in found:
        is_first = (each.load == LOADS[0]) == (each.arm == "baseline")
        each.loss = 0.7 if is_first else 0.5
    assert learning(found)["offload"].ratio == pytest.approx(0)


def test_only_rounds_that_all_arms_have_count() -> None:
    found = blocks(baseline=0, offload=0)
    strange = block(ROUNDS, LOADS[0], "offload").model_copy(update={"loss": 9.0})
    assert learning([*found, strange])["offload"].ratio == pytest.approx(0)


def test_arms_without_a_loss_are_left_out() -> None:
    found = blocks(baseline=0, repeat=0, offload=0.1)
    found[-1].loss = None
    assert list(learning(found)) == ["repeat"]
    found[0].loss = None
    assert learning(found) == {}


def test_a_repeated_block_counts_with_the_loss_of_its_first_run(synthetic_run: SyntheticRun) -> None:
    record = synthetic_run.record
    again = next(each for each in record.blocks if each.arm == "offload")
    record.repeated_blocks = [
        again.model_copy(update={"loss": 0.6, "disturbed": ["steal"]}),
        again.model_copy(update={"loss": 0.4, "disturbed": ["steal"]}),
    ]
    again.loss = 0.3
    summary = summarise(synthetic_run.folder, record)
    assert summary.learning["offload"].ratio == pytest.approx(0)
    assert summary.arms["offload"].loss == summary.loads["0.5"].arms["offload"].loss == pytest.approx(0.6)
