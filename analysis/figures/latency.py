"""[DDL] Fig. 4 and 5: the latency of RPCs, and its breakdown into the five metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from analysis.figures.distribution import Distribution, distributions
from analysis.figures.model import COLOURS, Axis, Fact, Figure, Panel, Series, Values
from analysis.figures.source import Curve, Source, curves
from foundation.logs.columns import CLASSES, METRICS, TRANSFERS, load_name, load_title

LATENCY = Axis("latency, µs", is_log=True)
CDF = Axis("CDF", is_share=True)


def cdf_series(curve: Curve, distribution: Distribution) -> Series:
    return Series(curve.name, distribution.edges, distribution.share, curve.colour, curve.dash)


def latencies(sources: Sequence[Source]) -> Figure:
    return _latencies(
        sources,
        "op",
        TRANSFERS,
        name="fig-04",
        title="Latency of RPCs",
        caption="[DDL] Fig. 4: a heavy tail, and pushes slower than pulls.",
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
    distributions_of_source = {
        id(source): distributions(source.rpc, "latency_us", ["arm", column]) for source in sources
    }
    panels = [
        Panel(
            value.replace("_", "-"),
            [
                cdf_series(curve, distributions_of_source[id(curve.source)][curve.arm, value])
                for curve in curves(sources)
                if (curve.arm, value) in distributions_of_source[id(curve.source)]
            ],
        )
        for value in values
    ]
    facts: dict[Fact, float] = {
        (curve.name, value, quantile): distribution.quantile(q)
        for curve in curves(sources)
        for (arm, value), distribution in distributions_of_source[id(curve.source)].items()
        if arm == curve.arm
        for quantile, q in (("p50", 0.5), ("p99", 0.99))
    }
    nonempty_panels = [panel for panel in panels if panel.series]
    return Figure(name, title, LATENCY, CDF, nonempty_panels, caption=caption, facts=facts)


def mean_metrics(source: Source) -> dict[tuple[str, str], dict[str, float]]:
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
    means = {id(source): mean_metrics(source) for source in sources}
    panels = []
    for op in TRANSFERS:
        bars = [
            (curve.name, means[id(curve.source)][curve.arm, op])
            for curve in curves(sources)
            if (curve.arm, op) in means[id(curve.source)]
        ]
        names = [name for name, _ in bars]
        series = [
            Series(
                metric, names, _to_array(mean[metric] / mean["latency"] for _, mean in bars), COLOURS[metric]
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
        caption="[DDL] Fig. 5: PS_proc and N_tx dominate. A metric's mean, divided by the mean latency.",
        facts={
            (curve.name, op, metric): mean
            for curve in curves(sources)
            for (arm, op), means_of_arm in means[id(curve.source)].items()
            if arm == curve.arm
            for metric, mean in means_of_arm.items()
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
    return Figure(
        "completion",
        "Completion time of pulls and pushes",
        LATENCY,
        CDF,
        [Panel(title, panels[title]) for title in sorted(panels, key=_load_and_op_of)],
        caption="All RPCs of an operation, from its scheduled start to its last response.",
    )


def _load_and_op_of(title: str) -> tuple[str, str]:
    op, _, load = title.partition(", ")
    return load, op


def _to_array(values: Iterable[float]) -> Values:
    return np.array(list(values), dtype=np.float64)
