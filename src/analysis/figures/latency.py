"""Pan et al. Fig. 4 to 6: the latency of RPCs, its breakdown into five metrics, and the size of responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from analysis.figures.distribution import Distribution, Key, discrete_distributions, distributions
from analysis.figures.figure_data import FigureCurve, Source, by_curve, curves
from analysis.figures.model import COLOURS, Axis, Fact, Figure, Panel, Series
from foundation.logs.columns import CLASSES, METRICS, TRANSFERS, load_name, load_title

LATENCY = Axis("latency, µs", is_log=True)
CDF = Axis("CDF", is_share=True)
CurveDistributions = Sequence[tuple[FigureCurve, Mapping[Key, Distribution]]]
"""Distributions of each curve, by keys of a panel."""


def cdf_series(curve: FigureCurve, distribution: Distribution) -> Series:
    return Series(curve.name, distribution.edges, distribution.share, curve.colour, curve.dash)


def cdf_panel(title: str, measured: CurveDistributions, *key: str) -> Panel:
    return Panel(title, [cdf_series(curve, by_key[key]) for curve, by_key in measured if key in by_key])


def quantile_facts(
    measured: CurveDistributions, quantiles: Sequence[str] = ("p50", "p99")
) -> dict[Fact, float]:
    return {
        (curve.name, *key, name): distribution.quantile(int(name[1:]) / 100)
        for curve, by_key in measured
        for key, distribution in by_key.items()
        for name in quantiles
    }


def latencies(sources: Sequence[Source]) -> Figure:
    return _latencies(
        sources,
        "op",
        TRANSFERS,
        name="fig-04",
        title="Latency of RPCs",
        caption="Pan et al. Fig. 4: a heavy tail, and pushes slower than pulls.",
    )


def latencies_by_class(sources: Sequence[Source]) -> Figure:
    class_sources = [source for source in sources if "class" in source.rpc.collect_schema()]
    return _latencies(
        class_sources,
        "class",
        CLASSES,
        name="fig-04-class",
        title="Latency of RPCs by where they were answered",
        caption="all-hit: by the switch alone; mixed: by switch and server; cold: by the server alone.",
    )


def _latencies(
    sources: Sequence[Source], column: str, values: Sequence[str], *, name: str, title: str, caption: str
) -> Figure:
    measured = by_curve(sources, lambda source: distributions(source.rpc, "latency_us", ["arm", column]))
    panels = [cdf_panel(value.replace("_", "-"), measured, value) for value in values]
    nonempty_panels = [panel for panel in panels if panel.series]
    return Figure(name, title, LATENCY, CDF, nonempty_panels, caption=caption, facts=quantile_facts(measured))


def response_sizes(sources: Sequence[Source]) -> Figure:
    """Return Fig. 6: CDF of the size of responses, in bytes of UDP payload."""
    measured = by_curve(
        sources, lambda source: discrete_distributions(source.rpc, "response_bytes", ["arm", "op"])
    )
    return Figure(
        "fig-06",
        "Size of responses",
        Axis("response, bytes"),
        CDF,
        [cdf_panel(op, measured, op) for op in TRANSFERS],
        kind="steps",
        caption="Pan et al. Fig. 6: a pull's response carries values and is far larger than a push's, "
        "which is an acknowledgement.",
        facts=quantile_facts(measured, ["p50"]),
    )


def mean_metrics(source: Source) -> dict[Key, dict[str, float]]:
    """Return (arm, op) -> metric -> mean in µs; `latency` is their sum, `request` a size in bytes."""
    columns = {
        **{name: f"{name}_us" for name in (*METRICS, "latency")},
        "request": "request_bytes",
    }
    rows = (
        source.rpc.group_by("arm", "op")
        .agg(pl.col(column).cast(pl.Float64).mean().alias(name) for name, column in columns.items())
        .collect(engine="streaming")
    )
    return {(row["arm"], row["op"]): {name: row[name] for name in columns} for row in rows.to_dicts()}


def breakdown(sources: Sequence[Source]) -> Figure:
    measured = by_curve(sources, mean_metrics)
    panels = []
    for op in TRANSFERS:
        bars = [(curve.name, means[op,]) for curve, means in measured if (op,) in means]
        names = [name for name, _ in bars]
        series = [
            Series(
                metric, names, np.array([mean[metric] / mean["latency"] for _, mean in bars]), COLOURS[metric]
            )
            for metric in METRICS
        ]
        panels.append(Panel(op, series if bars else []))
    return Figure(
        "fig-05",
        "Where an RPC's time goes",
        Axis("share of the mean latency", is_share=True),
        Axis(""),
        panels,
        kind="bars",
        caption="Pan et al. Fig. 5: PS_proc and N_tx dominate. A metric's mean, divided by the mean latency.",
        facts={
            (curve.name, *op, metric): mean
            for curve, means_by_op in measured
            for op, means in means_by_op.items()
            for metric, mean in means.items()
        },
    )


def completion(sources: Sequence[Source]) -> Figure:
    panels: dict[str, list[Series]] = {}
    runs = [source for source in sources if source.operations is not None]
    for curve in curves(runs, with_repetitions=len(sources) == 1):
        assert curve.source.operations is not None
        operations = curve.source.operations.filter(pl.col("arm") == curve.arm)
        for (load, op), distribution in distributions(operations, "latency_us", ["load", "op"]).items():
            if op in TRANSFERS:
                panels.setdefault(f"{op}, {load_title(load_name(float(load)))}", []).append(
                    cdf_series(curve, distribution)
                )
    titles = sorted(panels, key=lambda title: title.partition(", ")[::-1])  # by load, then by operation
    return Figure(
        "completion",
        "Completion time of pulls and pushes",
        LATENCY,
        CDF,
        [Panel(title, panels[title]) for title in titles],
        caption="All RPCs of an operation, from its scheduled start to its last response.",
    )
