"""The forest plot: a row a metric, with marks on a common axis whose left side is better."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from analysis.forest import Effect, ForestRow, axis_limit, forest
from analysis.metrics import Tone
from analysis.page.build import ResultColumns, forest_plot
from analysis.record import CapacityCheck, Contention
from analysis.statistics import compare_paired
from analysis.verdict import Verdict
from tests.harness.summaries import of_ratio
from tests.unit.analysis.test_sentences import ANSWERS, capacity

COLUMNS = ResultColumns("dedicated switch", "this machine")


def effect(ratio: float, low: float, high: float, tone: Tone = "") -> Effect:
    change = of_ratio(ratio, low, high)
    verdict = Verdict.CONTAINS_ZERO if not tone else Verdict.LESS if ratio < 0 else Verdict.MORE
    return Effect(change, verdict, tone)


NOT_MEASURED = Effect(None, Verdict.NOT_MEASURED)
CPU = ForestRow("CPU", "less", effect(-0.4, -0.5, -0.3, "better"), effect(0.1, -0.1, 0.3))
RATE = ForestRow("capacity", "more", effect(0.4, 0.3, 0.5, "better"), NOT_MEASURED)


def marks(row: ForestRow) -> list[float]:
    found = re.findall(r'class="mark [^"]*" style="left: ([\d.]+)%"', forest_plot([row], COLUMNS))
    return [float(each) for each in found]


def test_a_change_for_the_better_is_drawn_to_the_left_for_every_metric() -> None:
    """The axis reaches 5 % beyond the widest bound, 0.5, on either side of its middle."""
    place = pytest.approx(50 - 50 * 0.4 / 0.525, abs=0.01)
    assert marks(CPU) == [place, pytest.approx(50 + 50 * 0.1 / 0.525, abs=0.01)]
    assert marks(RATE) == [place]


def test_two_marks_stand_above_each_other_and_one_in_the_middle_of_its_row() -> None:
    assert (CPU.marks, RATE.marks) == (2, 1)
    assert 'class="track pair"' in forest_plot([CPU], COLUMNS)
    assert 'class="track"' in forest_plot([RATE], COLUMNS)


def test_an_interval_reaches_from_bound_to_bound() -> None:
    html = forest_plot([RATE], COLUMNS)
    [(left, right)] = re.findall(r'class="interval [^"]*" style="left: ([\d.]+)%; right: ([\d.]+)%"', html)
    assert (float(left), 100 - float(right)) == pytest.approx((2.38, 21.43), abs=0.02)


def test_colours_are_of_claims_alone() -> None:
    html = forest_plot([CPU], COLUMNS)
    assert html.count("mark dedicated better") == html.count("mark here unclear") == 1
    assert html.count('class="reason">~ ') == 1


@pytest.mark.parametrize(("rows", "reach"), [((CPU,), 0.525), ((), 1.0)])
def test_the_axis_holds_all_bounds(rows: tuple[ForestRow, ...], reach: float) -> None:
    assert axis_limit(rows) == pytest.approx(reach)


def test_the_axis_ends_at_a_doubling() -> None:
    wide = ForestRow("pull", "less", None, effect(0.2, -0.5, 9.0))
    assert axis_limit([wide]) == 1.0
    assert 'right: 0.0%"' in forest_plot([wide], COLUMNS)


def test_the_measured_capacity_has_its_range_and_claims_nothing() -> None:
    """First 200 of 200, then 100 of 200: the mean of the ratios' logarithms, and both ratios."""
    checks = [
        each.model_copy(update={"capacity": {"baseline": 200.0, "offload": 100.0}})
        for each in capacity(end=1)
    ]
    of = ANSWERS["no null"].model_copy(
        update={"capacity": {"baseline": 200.0, "offload": 200.0}, "capacity_checks": checks}
    )
    measured = forest(of, None)[-1].measured
    assert (measured.tone, measured.verdict) == ("", Verdict.FEW_CAPACITIES)
    assert measured.bounds == pytest.approx((-0.5, 0.5**0.5 - 1, 0.0))


def measured_capacity(ratios: Sequence[float], repeat: float = 1.0, disturbed: int = 0) -> Effect:
    """Return the row of the checks at the end: 200 steps/s of the baseline, and these multiples of them."""
    taken = Contention(duration_ms=100, disturbed=["steal"])
    checks = [
        CapacityCheck(
            when="end",
            capacity={"baseline": 200.0, "repeat": 200 * repeat ** (1 + number), "offload": 200 * ratio},
            contention={
                arm: taken if number < disturbed else Contention(duration_ms=100)
                for arm in ("baseline", "offload")
            },
        )
        for number, ratio in enumerate(ratios)
    ]
    capacity = {"baseline": 200.0, "offload": 20.0}
    return forest(
        ANSWERS["no null"].model_copy(update={"capacity": capacity, "capacity_checks": checks}), None
    )[-1].measured


def test_six_checks_of_the_capacity_at_the_end_have_an_interval() -> None:
    ratios = [0.7, 0.72, 0.74, 0.76, 0.78, 0.8]
    found = measured_capacity(ratios)
    expected = compare_paired(200 * np.array(ratios), np.full(6, 200.0))
    assert found.change == expected and expected.ratio_low is not None and expected.ratio_high is not None
    assert (found.tone, found.verdict) == ("worse", Verdict.LESS)
    assert expected.ratio_low == pytest.approx(0.7 - 1) and expected.ratio_high == pytest.approx(0.8 - 1)
    assert measured_capacity(ratios[1:]).verdict is Verdict.FEW_CAPACITIES


@pytest.mark.parametrize(
    ("repeat", "disturbed", "verdict"),
    [(1.0, 2, Verdict.DISTURBED), (1.0, 1, Verdict.LESS), (1.2, 0, Verdict.AS_NULL)],
)
def test_a_change_of_the_capacity_is_claimed_by_the_rule_of_other_changes(
    repeat: float, disturbed: int, verdict: Verdict
) -> None:
    assert measured_capacity([0.7, 0.72, 0.74, 0.76, 0.78, 0.8], repeat, disturbed).verdict is verdict
