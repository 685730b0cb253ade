"""Pan et al. Fig. 9 from the measurements: delay against connections, and the delay each connection adds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from analysis.figures.model import Axis, Fact, Figure, Panel, Series, Values, colour_of
from analysis.record import AnalysisError
from analysis.statistics import MIN_ROUNDS, interval
from hotline_paper.connections.settings import ACTIVE_CALLERS, ARMS
from hotline_paper.connections.waiting import WAYS

ACTIVITIES = {True: "all call", False: f"{ACTIVE_CALLERS} call, the others are idle"}
PANELS = [(active, arm) for arm in ARMS for active in ACTIVITIES if active or not arm.settings.aggregates]


def delay_against_connections(file: Path) -> Figure:
    try:
        rows = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise AnalysisError(f"{file}: cannot be read: {error}") from error
    return Figure(
        "fig-09",
        "Delay of empty RPCs against connections",
        Axis("connections", is_log=True),
        Axis("mean delay, µs", is_log=True),
        [
            Panel(f"{arm.name}: {ACTIVITIES[active]}", list(_series(rows, active, arm.name)))
            for active, arm in PANELS
        ],
        kind="points",
        caption="In Pan et al. Fig. 9 the delay grows linearly. Servers scan their sockets, poll them, "
        "wait for ready ones with epoll, or have one socket for all callers. Each point has the same "
        "number of RPCs, sent one at a time. Empty RPCs have no keys, so offload cannot answer them in the "
        "switch.",
        facts=dict(_slopes(rows)),
    )


def _select(rows: pl.DataFrame, way: str, active: bool, arm: str) -> pl.DataFrame:
    is_curve = (pl.col("way") == way) & (pl.col("arm") == arm)
    # With so few connections all of them call, so both curves share these points.
    is_shared = pl.col("connections") <= ACTIVE_CALLERS
    return rows.filter(is_curve & ((pl.col("active") == active) | is_shared)).sort("connections", "round")


def _series(rows: pl.DataFrame, active: bool, arm: str) -> Iterator[Series]:
    for index, way in enumerate(WAYS):
        groups = _select(rows, way, active, arm).partition_by("connections", maintain_order=True)
        if groups:
            means = [each["mean_us"].to_numpy() for each in groups]
            low, high = zip(*map(_interval, means), strict=True)
            yield Series(
                way,
                np.array([each["connections"][0] for each in groups], dtype=np.float64),
                np.array([mean.mean() for mean in means]),
                colour_of(way, index),
                low=np.array(low),
                high=np.array(high),
            )


def _interval(rounds: Values) -> tuple[float, float]:
    return interval(rounds) if len(rounds) >= MIN_ROUNDS else (float(rounds.min()), float(rounds.max()))


def _slopes(rows: pl.DataFrame) -> Iterator[tuple[Fact, float]]:
    for way, (active, arm) in product(WAYS, PANELS):
        rows_by_round = _select(rows, way, active, arm.name).partition_by("round")
        slopes = np.array(
            [
                np.polyfit(each["connections"].to_numpy(), each["mean_us"].to_numpy(), 1)[0]
                for each in rows_by_round
                if each["connections"].n_unique() > 1
            ]
        )
        if len(slopes):
            low, high = _interval(slopes)
            key = (way, ACTIVITIES[active], arm.name)
            yield (*key, "slope"), float(slopes.mean())
            yield (*key, "low"), low
            yield (*key, "high"), high
