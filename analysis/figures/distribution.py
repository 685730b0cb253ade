"""Distributions that are exact where they are told, of more values than fit into memory.

Values are counted between edges, a hundred a decade: how many are at or below an edge is exact, and a
quantile is the next edge, at most 2.4 % above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from analysis.figures.model import Values

A_DECADE = 100
_LEAST = -3 * A_DECADE
"""The edge of 1 ns, and of all below: nothing is measured more finely."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of `count` values."""

    edges: Values
    """[n], rising; no value is at or below the first, but for those that are less than 1 ns."""
    share: Values
    """[n]: part of the values at or below each edge."""
    count: int
    mean: float

    def quantile(self, q: float) -> float:
        """The first edge with at least this part of the values at or below it."""
        return float(self.edges[np.searchsorted(self.share, q - _ROUNDING)])


Key = tuple[str, ...]


def distributions(rows: pl.LazyFrame, value: str, by: Sequence[str]) -> dict[Key, Distribution]:
    """Of a column of times in µs, from 0 on, for each combination of the columns `by`."""
    column = pl.col(value).cast(pl.Float64)
    edge = ((column.log10() * A_DECADE - _ROUNDING).ceil()).cast(pl.Int32).clip(lower_bound=_LEAST)
    bins = pl.when(column > 0).then(edge).otherwise(_LEAST)
    return {
        key: _distribution(10.0 ** ((np.append(edges[0] - 1, edges)) / A_DECADE), counts, total)
        for key, edges, counts, total in _counted(rows, bins, column, by)
    }


def discrete_distributions(rows: pl.LazyFrame, value: str, by: Sequence[str]) -> dict[Key, Distribution]:
    """The same of whole numbers from 0 on, of which there are few: each is an edge."""
    column = pl.col(value).cast(pl.Int64)
    return {
        key: _distribution(np.append(edges[0] - 1, edges).astype(np.float64), counts, total)
        for key, edges, counts, total in _counted(rows, column, column, by)
    }


def _counted(
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
    count = int(counts.sum())
    return Distribution(edges, np.append(0, np.cumsum(counts)) / count, count, total / count)
