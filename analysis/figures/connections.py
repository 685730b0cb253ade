"""[DDL] Fig. 7: the interval between a worker's calls to a server, and the concurrent workers of a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from analysis.figures.distribution import Distribution, discrete_distributions, distributions
from analysis.figures.latency import CDF, cdf_series
from analysis.figures.model import Axis, Fact, Figure, Panel
from analysis.figures.source import BLOCK_COLUMNS, Curve, Source, curves, rows_in_blocks

WINDOW_US = 1000
"""Window for concurrency in µs, t_window in [DDL]."""
_PART_ROWS = 10_000_000  # rows in memory at a time, on average


def intervals(sources: Sequence[Source]) -> Figure:
    distributions_of_curves = [
        (curve, distribution) for curve in curves(sources) if (distribution := interval_of(curve)) is not None
    ]
    return Figure(
        "fig-07a",
        "Interval between two RPCs of one worker at one server",
        Axis("interval, µs", is_log=True),
        CDF,
        [
            Panel(
                "all servers",
                [cdf_series(curve, distribution) for curve, distribution in distributions_of_curves],
            )
        ],
        caption="[DDL] Fig. 7a: mostly very short, and a few as long as a training step.",
        facts=_facts(distributions_of_curves),
    )


def interval_of(curve: Curve) -> Distribution | None:
    rows = curve.source.rpc.filter(pl.col("arm") == curve.arm)
    columns = rows.collect_schema().names()
    group_columns = ["worker", "ps", *(name for name in BLOCK_COLUMNS if name in columns)]
    # Hashes take less memory than names.
    rows = rows.select(pl.struct(group_columns).hash().alias("group"), pl.col("worker").hash(), "t_send_us")
    row_count = rows.select(pl.len()).collect(engine="streaming").item()
    parts = row_count // _PART_ROWS + 1
    gaps = [
        rows.filter(pl.col("worker") % parts == part)
        .select("group", "t_send_us")
        .collect(engine="streaming")
        .sort("group", "t_send_us")
        # Times are whole µs, so an interval of 0 is less than 1 µs.
        .select(
            interval_us=pl.when(pl.col("group") == pl.col("group").shift())
            .then(pl.col("t_send_us").diff().clip(1))
            .cast(pl.Float32)
        )
        .drop_nulls()
        for part in range(parts)
    ]
    rows_of_intervals = pl.concat(gaps).lazy().with_columns(arm=pl.lit(curve.arm))
    return distributions(rows_of_intervals, "interval_us", ["arm"]).get((curve.arm,))


def concurrency(sources: Sequence[Source]) -> Figure:
    """Return Fig. 7b: CDF of unique workers that call one PS within 1,000 µs, over windows with a call."""
    # Sources cannot be keys of a dict, so their identities are.
    distributions_of_source = {id(source): concurrency_of(source) for source in sources}
    distributions_of_curves = [
        (curve, distributions_of_source[id(curve.source)][(curve.arm,)])
        for curve in curves(sources)
        if (curve.arm,) in distributions_of_source[id(curve.source)]
    ]
    return Figure(
        "fig-07b",
        "Workers that call one server within 1,000 µs",
        Axis("unique workers in a window"),
        CDF,
        [
            Panel(
                "all servers",
                [cdf_series(curve, distribution) for curve, distribution in distributions_of_curves],
            )
        ],
        kind="steps",
        caption="[DDL] Fig. 7b: 50 to 200 workers, in clusters of 80 or more. "
        "Windows without a request do not count.",
        facts=_facts(distributions_of_curves),
    )


def _facts(distributions_of_curves: Iterable[tuple[Curve, Distribution]]) -> dict[Fact, float]:
    return {
        (curve.name, name): distribution.quantile(q)
        for curve, distribution in distributions_of_curves
        for name, q in (("p50", 0.5), ("p99", 0.99))
    }


def concurrency_of(source: Source) -> dict[tuple[str, ...], Distribution]:
    if source.connections is None:
        return {}
    row_count = source.connections.select(pl.len()).collect(engine="streaming").item()
    parts = row_count // _PART_ROWS + 1
    window = pl.col("time_us") // WINDOW_US
    windows = [
        source.connections.filter(window % parts == part)
        .group_by("arm", pl.col("ps").hash(), time_us=window * WINDOW_US)
        .agg(pl.col("worker").hash().n_unique())
        .drop("ps")
        .collect(engine="streaming")
        for part in range(parts)
    ]
    windows_in_blocks = rows_in_blocks(pl.concat(windows), "time_us", source.record)
    return discrete_distributions(windows_in_blocks.lazy(), "worker", ["arm"])
