"""[DDL] Fig. 7: how often a worker calls a server, and how many workers call one at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from analysis.figures.distribution import Distribution, discrete_distributions, distributions
from analysis.figures.latency import CDF, cdf_series
from analysis.figures.model import Axis, Fact, Figure, Panel
from analysis.figures.source import IN_A_BLOCK, Curve, Source, curves, in_blocks

WINDOW_US = 1000
"""[DDL]'s t_window."""
_PART_ROWS = 10_000_000
"""Rows whose order in time is told, or whose workers are counted, at once."""


def intervals(sources: Sequence[Source]) -> Figure:
    """Fig. 7a: CDF of the interval between two RPCs of one worker at one PS."""
    found = [(curve, of) for curve in curves(sources) if (of := interval_of(curve)) is not None]
    return Figure(
        "fig-07a",
        "Interval between two RPCs of one worker at one server",
        Axis("interval, µs", is_log=True),
        CDF,
        [Panel("all servers", [cdf_series(curve, each) for curve, each in found])],
        caption="[DDL] Fig. 7a: mostly very short, and a few as long as a training step.",
        facts=_facts(found),
    )


def interval_of(curve: Curve) -> Distribution | None:
    """Of one arm; None where no worker has called a server twice."""
    rows = curve.source.rpc.filter(pl.col("arm") == curve.arm)
    columns = rows.collect_schema().names()
    within = ["worker", "ps", *(name for name in IN_A_BLOCK if name in columns)]
    # Names may be long, and their hashes are not.
    rows = rows.select(pl.struct(within).hash().alias("line"), pl.col("worker").hash(), "t_send_us")
    number = rows.select(pl.len()).collect(engine="streaming").item()
    parts = number // _PART_ROWS + 1
    gaps = [
        rows.filter(pl.col("worker") % parts == part)
        .select("line", "t_send_us")
        .collect(engine="streaming")
        .sort("line", "t_send_us")
        # Times are whole µs: none is less than that.
        .select(
            interval_us=pl.when(pl.col("line") == pl.col("line").shift())
            .then(pl.col("t_send_us").diff().clip(1))
            .cast(pl.Float32)
        )
        .drop_nulls()
        for part in range(parts)
    ]
    found = pl.concat(gaps).lazy().with_columns(arm=pl.lit(curve.arm))
    return distributions(found, "interval_us", ["arm"]).get((curve.arm,))


def concurrency(sources: Sequence[Source]) -> Figure:
    """Fig. 7b: CDF of unique workers that call one PS within 1,000 µs, over windows with any."""
    of_source = {id(source): concurrency_of(source) for source in sources}
    found = [
        (curve, of_source[id(curve.source)][(curve.arm,)])
        for curve in curves(sources)
        if (curve.arm,) in of_source[id(curve.source)]
    ]
    return Figure(
        "fig-07b",
        "Workers that call one server within 1,000 µs",
        Axis("unique workers in a window"),
        CDF,
        [Panel("all servers", [cdf_series(curve, each) for curve, each in found])],
        kind="steps",
        caption="[DDL] Fig. 7b: 50 to 200, of 80 workers and more. Windows without a request do not count.",
        facts=_facts(found),
    )


def _facts(found: Iterable[tuple[Curve, Distribution]]) -> dict[Fact, float]:
    return {
        (curve.name, name): of.quantile(q) for curve, of in found for name, q in (("p50", 0.5), ("p99", 0.99))
    }


def concurrency_of(source: Source) -> dict[tuple[str, ...], Distribution]:
    """By arm; empty without a connection log."""
    if source.connections is None:
        return {}
    number = source.connections.select(pl.len()).collect(engine="streaming").item()
    parts = number // _PART_ROWS + 1
    window = pl.col("time_us") // WINDOW_US
    windows = [
        source.connections.filter(window % parts == part)
        .group_by("arm", pl.col("ps").hash(), time_us=window * WINDOW_US)
        .agg(pl.col("worker").hash().n_unique())
        .drop("ps")
        .collect(engine="streaming")
        for part in range(parts)
    ]
    counted = in_blocks(pl.concat(windows), "time_us", source.record)
    return discrete_distributions(counted.lazy(), "worker", ["arm"])
