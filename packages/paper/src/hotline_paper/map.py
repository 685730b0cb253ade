"""A map of the effect of offload over skew and keys per step, from measured runs and a cost model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from analysis.figures.model import Axis, Fact, Figure, Panel, Series
from foundation.logs.access.block import ReadOptions
from foundation.text import signed
from hosts.workload import data_files
from hotline_paper.costs import (
    METRICS,
    MeasuredPoint,
    MeasuredRun,
    RpcCosts,
    measured_point,
    prediction_errors,
)
from hotline_paper.packing import TOP_SHARE, MeanPacking, pack_shape, pack_trace, skew_of

SKEWS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
KEYS_PER_STEP = (125, 250, 500, 1000, 2000, 4000, 8000)
PUBLISHED_SKEWS = {
    "Criteo sample": 0.58,
    "rcv1": 0.34,
    "Meta's DLRM reuse histogram": 0.16,
    "rating data": 0.185,
}
"""Skews of published data; for rating data, the middle of 0.14 to 0.23."""
TITLES = {
    "packets": "packets to the servers",
    "servers": "servers' CPU",
    "workers": "workers' CPU",
    "pull": "time of a pull",
    "push": "time of a push",
}
SERVERS = 2
_RUN_COLOUR, _MARKER_COLOUR = "#222222", "#7030a0"
_CAPTION = (
    "Skew is the share of the updates that the top 2 % of the parameters take. Green is a decrease "
    "and red an increase, in % of the value without offload. Dots are measured runs. Between them RPCs are "
    "counted by packing lanes, and costs of RPCs, keys and operations are fitted to the runs; the error is "
    "the median error of predicting each run from the others. Published skews, not measured here: "
    f"{', '.join(f'{name} {skew:g}' for name, skew in PUBLISHED_SKEWS.items())}."
)


@dataclass(frozen=True, slots=True)
class Marker:
    name: str
    skew: float
    keys: float  # mean keys of a step


@dataclass(frozen=True, slots=True)
class DataMarker(Marker):
    packing: MeanPacking

    def changes(self, costs: RpcCosts) -> dict[str, float]:
        return _changes(self.packing, costs)


def marker_of(data: Path, options: ReadOptions, note: Callable[[str], None]) -> DataMarker:
    trace = data_files.load(data, workers=1, options=options, note=note)
    packing = pack_trace(trace, max(1, round(TOP_SHARE * trace.space.size)), SERVERS)
    return DataMarker(data.name, skew_of(trace), packing.keys, packing)


@dataclass(frozen=True, slots=True)
class OffloadMap:
    figure: Figure
    costs: RpcCosts
    errors: dict[str, list[float]]
    """Quantity -> the error of predicting each run from the others, in the unit of a change."""
    changes: dict[tuple[float, int], dict[str, float]]
    """(skew, keys a step) -> quantity -> the change by offload, relative to the value without."""


def draw_map(runs: Sequence[MeasuredRun], servers: int, markers: Sequence[Marker] = ()) -> OffloadMap:
    points = [
        measured_point(
            run, pack_shape(run.config.workload.hot_share, run.config.workload.keys_per_step, servers)
        )
        for run in runs
    ]
    costs = RpcCosts.fit(points)
    errors = prediction_errors(points)
    changes = {place: _changes(pack_shape(*place, servers), costs) for place in product(SKEWS, KEYS_PER_STEP)}
    return OffloadMap(_figure(runs, points, changes, errors, markers), costs, errors, changes)


def _changes(packing: MeanPacking, costs: RpcCosts) -> dict[str, float]:
    return {quantity: relative_change(quantity, packing, costs) for quantity in TITLES}


def relative_change(quantity: str, packing: MeanPacking, costs: RpcCosts) -> float:
    """Return the change by offload, relative to the value without offload; negative is a gain."""
    if quantity == "packets":
        return packing.server_rpcs_with_offload / packing.rpcs - 1
    return costs.ratio(quantity, packing) - 1


def _figure(
    runs: Sequence[MeasuredRun],
    points: Sequence[MeasuredPoint],
    changes: dict[tuple[float, int], dict[str, float]],
    errors: dict[str, list[float]],
    markers: Sequence[Marker],
) -> Figure:
    facts: dict[Fact, float] = {
        (quantity, f"{skew:g}", str(keys)): at_place[quantity]
        for quantity, ((skew, keys), at_place) in product(TITLES, changes.items())
    }
    return Figure(
        "map",
        "What offload changes, by skew and keys a step",
        Axis("skew (share of the top 2 %)", is_share=True),
        Axis("keys a step", is_log=True),
        [
            Panel(
                f"{title}, {_accuracy(errors.get(quantity))}",
                [
                    _surface(quantity, facts),
                    *_measured_series(quantity, runs, points),
                    *(
                        Series(marker.name, np.array([marker.skew]), np.array([marker.keys]), _MARKER_COLOUR)
                        for marker in markers
                    ),
                ],
            )
            for quantity, title in TITLES.items()
        ],
        kind="map",
        caption=_CAPTION,
        facts=facts,
    )


def _accuracy(errors: Sequence[float] | None) -> str:
    return "counted" if errors is None else f"predicted to ±{100 * float(np.median(errors)):.0f} points"


def _surface(quantity: str, facts: dict[Fact, float]) -> Series:
    grid = np.array([[facts[quantity, f"{skew:g}", str(keys)] for skew in SKEWS] for keys in KEYS_PER_STEP])
    return Series("change", np.array(SKEWS), np.array(KEYS_PER_STEP, dtype=np.float64), z=grid)


def _measured_series(
    quantity: str, runs: Sequence[MeasuredRun], points: Sequence[MeasuredPoint]
) -> list[Series]:
    if quantity not in METRICS:
        return []
    return [
        Series(
            f"{signed(100 * (point.ratio(quantity) - 1))}%",
            np.array([run.config.workload.hot_share]),
            np.array([run.config.workload.keys_per_step], dtype=np.float64),
            _RUN_COLOUR,
        )
        for run, point in zip(runs, points, strict=True)
    ]
