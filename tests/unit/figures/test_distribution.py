"""Distributions against the sorted values themselves."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.distribution import discrete_distributions, distributions

TIMES = st.lists(
    st.floats(1e-3, 1e7) | st.sampled_from([0.0, 1.0, 10.0, 1000.0, 1e6]), min_size=1, max_size=60
)


def frame(values: list[float], arm: str = "offload") -> pl.LazyFrame:
    return pl.LazyFrame({"arm": [arm] * len(values), "us": values})


@given(TIMES)
def test_shares_are_exact_at_every_edge(values: list[float]) -> None:
    [(key, found)] = distributions(frame(values), "us", ["arm"]).items()
    assert (key, found.count) == (("offload",), len(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.share[0] == 0 and found.share[-1] == 1
    for edge, share in zip(found.edges, found.share, strict=True):
        # A value on an edge belongs to it, even if the logarithm is off by its last bit.
        below = sum(max(value, 1e-3) <= edge * (1 + 1e-8) for value in values)
        assert share * len(values) == pytest.approx(below)


@given(TIMES, st.floats(0.01, 1))
def test_a_quantile_is_the_next_edge(values: list[float], q: float) -> None:
    [found] = distributions(frame(values), "us", ["arm"]).values()
    true = max(sorted(values)[math.ceil(q * len(values) - 1e-6) - 1], 1e-3)
    assert true * (1 - 1e-8) <= found.quantile(q) <= true * 10**0.01 * (1 + 1e-8)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_whole_numbers_are_their_own_edges(values: list[int]) -> None:
    rows = pl.LazyFrame({"arm": ["offload"] * len(values), "workers": values})
    [found] = discrete_distributions(rows, "workers", ["arm"]).values()
    assert list(found.edges[1:]) == sorted(set(values)) and found.edges[0] < min(values)
    for number, share in zip(found.edges, found.share, strict=True):
        assert share == pytest.approx(sum(value <= number for value in values) / len(values))
    assert found.quantile(0.5) == sorted(values)[math.ceil(len(values) / 2) - 1]


def test_each_combination_of_columns_has_its_own_distribution() -> None:
    rows = pl.LazyFrame({"arm": ["a", "a", "b"], "op": ["pull", "push", "pull"], "us": [10, 100, 1000]})
    found = distributions(rows, "us", ["arm", "op"])
    assert {key: each.quantile(1) for key, each in found.items()} == pytest.approx(
        {("a", "pull"): 10, ("a", "push"): 100, ("b", "pull"): 1000}
    )
