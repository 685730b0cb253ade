"""Quantiles of the t distribution are those of SciPy and of tables."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import student
from analysis.student import t_probability, t_quantile
from switch_harness.effort import examples


@pytest.mark.parametrize(
    ("degrees", "probability", "expected"),
    [(1, 0.75, 1.0), (1, 0.975, 12.7062), (5, 0.975, 2.5706), (10, 0.95, 1.8125), (10**6, 0.975, 1.95997)],
)
def test_quantiles_equal_printed_tables(degrees: float, probability: float, expected: float) -> None:
    assert t_quantile(degrees, probability) == pytest.approx(expected, abs=6e-5)


def test_the_quantile_of_no_degrees_of_freedom_is_no_number_and_takes_no_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(student, "t_probability", None)
    assert math.isnan(t_quantile(math.nan, 0.975))


@settings(max_examples=examples(60))
@given(st.floats(0.5, 1e4), st.floats(0.5, 0.99999))
def test_quantiles_equal_quantiles_of_scipy(degrees: float, probability: float) -> None:
    from scipy.special import stdtrit  # here, so that one process of the tests spends 0.8 s on it, not all

    found = t_quantile(degrees, probability)
    assert found == pytest.approx(float(stdtrit(degrees, probability)), rel=1e-8, abs=1e-8)
    assert t_probability(degrees, found) == pytest.approx(probability, abs=1e-10)
