"""Figures of a run as SVG text, to stand in the report or in a paper."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from analysis.summary import Summary
from logs.columns import ARMS, CLASSES, METRICS, TRANSFERS

COLOURS = dict(zip(ARMS, ("#555555", "#b0b0b0", "#3b7dd8", "#e07b1a", "#2c9a57"), strict=True))
METRIC_COLOURS = dict(zip(METRICS, ("#9ecae1", "#4292c6", "#e6550d", "#fdae6b", "#bdbdbd"), strict=True))
POINTS = 400
"""Points of a CDF curve; more would not be seen."""


def figures(run: Path, summary: Summary) -> dict[str, str]:
    """Title -> SVG: CDFs of operations and of RPCs by arm, RPC latency by class, the five metrics."""
    measured = pl.col("measured") & (pl.col("round") >= 0)
    operations = pl.scan_parquet(run / "operations.parquet").filter(measured)
    rpc = pl.scan_parquet(run / "rpc.parquet").filter(measured & (pl.col("op") != "empty"))
    operations_frame = operations.select("arm", "op", "load", "latency_us").collect()
    rpc_frame = rpc.select("arm", "op", "class", "latency_us").collect()
    completion = _operations(operations_frame, list(summary.loads))
    return {
        "Completion of pull and push, from the scheduled start": svg(completion),
        "Latency of RPCs": svg(_by_column(rpc_frame, "op", list(TRANSFERS))),
        "Latency of RPCs by class": svg(_by_column(rpc_frame, "class", list(CLASSES))),
        "Where an RPC's time goes": svg(_breakdown(summary)),
    }


def svg(figure: Figure) -> str:
    """The figure as an <svg> element, without XML prologue; closes the figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _operations(frame: pl.DataFrame, loads: list[str]) -> Figure:
    figure, axes = plt.subplots(
        len(loads),
        2,
        figsize=(10, 3.2 * len(loads)),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for row, load in zip(axes, loads, strict=True):
        at_load = frame.filter(pl.col("load").cast(pl.Float64).round(6) == round(float(load), 6))
        for axis, op in zip(row, TRANSFERS, strict=True):
            _cdfs(axis, at_load.filter(pl.col("op") == op))
            axis.set_title(f"{op}, load {load}")
    return figure


def _by_column(frame: pl.DataFrame, column: str, values: list[str]) -> Figure:
    present = [value for value in values if (frame[column] == value).any()] or values[:1]
    figure, axes = plt.subplots(
        1,
        len(present),
        figsize=(10, 3.2),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for axis, value in zip(axes[0], present, strict=True):
        _cdfs(axis, frame.filter(pl.col(column) == value))
        axis.set_title(value.replace("_", "-"))
    return figure


def _cdfs(axis: Axes, frame: pl.DataFrame) -> None:
    levels = np.linspace(0, 1, POINTS)
    for arm in ARMS:
        latencies: npt.NDArray[np.float32] = frame.filter(pl.col("arm") == arm)["latency_us"].to_numpy()
        if len(latencies):
            in_ms = np.quantile(latencies, levels) / 1e3
            axis.plot(in_ms, levels, label=arm, color=COLOURS[arm], linewidth=1.4)
    if axis.lines:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.legend(loc="lower right", frameon=False)
    axis.set_xlabel("latency, ms")
    axis.set_ylabel("CDF")
    axis.label_outer()
    axis.set_ylim(0, 1)
    axis.grid(alpha=0.25)


def _breakdown(summary: Summary) -> Figure:
    figure, axis = plt.subplots(figsize=(10, 2.6), layout="constrained")
    left = np.zeros(len(ARMS))
    for metric in METRICS:
        widths = np.array([summary.arms[arm].metrics_us[metric] or 0.0 for arm in ARMS])
        axis.barh(ARMS, widths, left=left, label=metric, color=METRIC_COLOURS[metric])
        left += widths
    axis.invert_yaxis()
    axis.set_xlabel("mean, µs")
    axis.legend(ncols=len(METRICS), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure
