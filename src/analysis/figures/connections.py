"""Pan et al. Fig. 7: the interval between a worker's calls to a server, and a server's concurrent workers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analysis.figures.distribution import Distribution, Key, discrete_distributions, distributions
from analysis.figures.figure_data import BLOCK_COLUMNS, FigureCurve, Source, by_curve, curves, rows_in_blocks
from analysis.figures.latency import CDF, cdf_panel, quantile_facts
from analysis.figures.model import Axis, Figure

WINDOW_US = 1000
"""Window for concurrency in µs, t_window in Pan et al."""
_PART_ROWS = 10_000_000  # rows in memory at a time, on average


def intervals(sources: Sequence[Source]) -> Figure:
    measured = [(curve, interval_of(curve)) for curve in curves(sources)]
    return Figure(
        "fig-07a",
        "Interval between two RPCs of one worker at one server",
        Axis("interval, µs", is_log=True),
        CDF,
        [cdf_panel("all servers", measured)],
        caption="Pan et al. Fig. 7a: mostly very short, and a few as long as a training step.",
        facts=quantile_facts(measured),
    )


def interval_of(curve: FigureCurve) -> dict[Key, Distribution]:
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
    by_arm = distributions(rows_of_intervals, "interval_us", ["arm"])
    return {key[1:]: intervals_of_arm for key, intervals_of_arm in by_arm.items()}  # keys without the arm


def concurrency(sources: Sequence[Source]) -> Figure:
    """Return Fig. 7b: CDF of unique workers that call one PS within 1,000 µs, over windows with a call."""
    measured = by_curve(sources, concurrency_of)
    return Figure(
        "fig-07b",
        "Workers that call one server within 1,000 µs",
        Axis("unique workers in a window"),
        CDF,
        [cdf_panel("all servers", measured)],
        kind="steps",
        caption="Pan et al. Fig. 7b: 50 to 200 workers, in clusters of 80 or more. "
        "Windows without a request do not count.",
        facts=quantile_facts(measured),
    )


def concurrency_of(source: Source) -> dict[Key, Distribution]:
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
