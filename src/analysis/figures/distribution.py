"""Distributions of more values than fit into memory, exact at their edges.

Values are counted in histogram bins, 100 per decade: the number at or below a bin's edge is exact, and a
quantile is rounded up to the next edge, by at most 2.4 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from analysis.figures.model import Values

EDGES_PER_DECADE = 100
_MIN_EDGE = -3 * EDGES_PER_DECADE
"""Number of the lowest edge, 10^-3 µs = 1 ns, the resolution of all measurements."""
_ROUNDING = 1e-9  # tolerance, so that a value at an edge stays there despite rounding errors


@dataclass(frozen=True, slots=True)
class Distribution:
    edges: Values
    """[n], ascending; only values below 1 ns can be at or below the first edge."""
    share: Values
    """[n]: share of the values at or below each edge."""
    count: int
    mean: float

    def quantile(self, q: float) -> float:
        return float(self.edges[np.searchsorted(self.share, q - _ROUNDING)])


Key = tuple[str, ...]


def distributions(rows: pl.LazyFrame, value: str, by: Sequence[str]) -> dict[Key, Distribution]:
    """Return the distribution of a column of times in µs, >= 0, for each combination of the columns `by`."""
    column = pl.col(value).cast(pl.Float64)
    edge = ((column.log10() * EDGES_PER_DECADE - _ROUNDING).ceil()).cast(pl.Int32).clip(lower_bound=_MIN_EDGE)
    bins = pl.when(column > 0).then(edge).otherwise(_MIN_EDGE)
    return {
        key: _distribution(10.0 ** ((np.append(edges[0] - 1, edges)) / EDGES_PER_DECADE), counts, total)
        for key, edges, counts, total in _bin_counts(rows, bins, column, by)
    }


def discrete_distributions(rows: pl.LazyFrame, value: str, by: Sequence[str]) -> dict[Key, Distribution]:
    """Return distributions of a column of integers >= 0 with few different values; each value is an edge."""
    column = pl.col(value).cast(pl.Int64)
    return {
        key: _distribution(np.append(edges[0] - 1, edges).astype(np.float64), counts, total)
        for key, edges, counts, total in _bin_counts(rows, column, column, by)
    }


def _bin_counts(
    rows: pl.LazyFrame, bins: pl.Expr, value: pl.Expr, by: Sequence[str]
) -> list[tuple[Key, Values, Values, float]]:
    counts = (
        rows.group_by(*(pl.col(name).cast(pl.String) for name in by), bin=bins)
        .agg(pl.len(), total=value.sum().cast(pl.Float64))
        .collect(engine="streaming")
        .sort("bin")
        .partition_by(*by, as_dict=True)
    )
    return [
        (key, part["bin"].to_numpy(), part["len"].to_numpy(), float(part["total"].sum()))
        for key, part in sorted(counts.items())
    ]


def _distribution(edges: Values, counts: Values, total: float) -> Distribution:
    # `edges` begins with one more than `counts`, at or below which there is no value.
    count = int(counts.sum())
    return Distribution(edges, np.append(0, np.cumsum(counts)) / count, count, total / count)
