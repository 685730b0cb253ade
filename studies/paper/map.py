"""When does offload pay? A map over skew and keys a step, from measured runs and the packing between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.figures.model import Axis, Fact, Figure, Panel, Series
from studies.paper.costs import METRICS, Costs, Point, errors, point_of
from studies.paper.measured import MeasuredRun
from studies.paper.packing import Packed, pack_shape

SKEWS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
KEYS = (125, 250, 500, 1000, 2000, 4000, 8000)
PUBLISHED = {
    "Criteo sample": 0.58,
    "rcv1": 0.34,
    "Meta's DLRM reuse histogram": 0.16,
    "rating data": 0.185,
}
"""Skews of data that others use; of rating data the middle of 0.14 to 0.23."""
TITLES = {
    "packets": "packets to the servers",
    "servers": "servers' CPU",
    "workers": "workers' CPU",
    "pull": "time of a pull",
    "push": "time of a push",
}


_CAPTION = (
    "Skew is the share of the updates that the top 2 % of the parameters take. Green gains, red "
    "loses, in % of what it is without offload. Dots are measured runs. Between them stands the "
    "packing of lanes, which is counted, with what an RPC and a key cost here, which is fitted to the"
    " runs; how far that is off is the median of predicting each run from the others. Skews of data "
    f"in use, not measured here: {', '.join(f'{name} {skew:g}' for name, skew in PUBLISHED.items())}."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A point of the map that is marked."""

    name: str
    skew: float
    keys: float


@dataclass(frozen=True, slots=True)
class Map:
    """The figure, and what its points say."""

    figure: Figure
    packed: dict[tuple[float, int], Packed]
    """(skew, keys a step) -> packing."""
    costs: Costs


def draw_map(
    runs: Sequence[MeasuredRun],
    servers: int,
    places: Sequence[Place] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Map:
    """From runs of unlike skew and keys a step with as many workers and servers."""
    measured = [
        point_of(run, pack_shape(run.config.workload.share, run.config.workload.keys_per_step, servers))
        for run in runs
    ]
    packed = {}
    for done, (skew, keys) in enumerate((skew, keys) for skew in SKEWS for keys in KEYS):
        progress(done, len(SKEWS) * len(KEYS))
        packed[skew, keys] = pack_shape(skew, keys, servers)
    costs = Costs.fit(measured)
    return Map(_figure(runs, measured, packed, costs, places), packed, costs)


def change(what: str, packed: Packed, costs: Costs) -> float:
    """Of a metric by offload, as a part of what it is without; negative is a gain."""
    if what == "packets":
        return packed.to_servers / packed.rpcs - 1
    return costs.ratio(what, packed) - 1


def _figure(
    runs: Sequence[MeasuredRun],
    measured: Sequence[Point],
    packed: dict[tuple[float, int], Packed],
    costs: Costs,
    places: Sequence[Place],
) -> Figure:
    off = errors(measured)
    facts: dict[Fact, float] = {
        (what, f"{skew:g}", str(keys)): change(what, packed[skew, keys], costs)
        for what in TITLES
        for skew in SKEWS
        for keys in KEYS
    }
    return Figure(
        "map",
        "What offload changes, by skew and keys a step",
        Axis("skew (share of the top 2 %)", is_share=True),
        Axis("keys a step", is_log=True),
        [
            Panel(
                f"{title}{f', predicted to ±{off[what]:.0%}' if what in off else ', counted'}",
                [
                    _surface(what, facts),
                    *_measured(what, runs, measured),
                    *(
                        Series(place.name, np.array([place.skew]), np.array([place.keys]), "#7030a0")
                        for place in places
                    ),
                ],
            )
            for what, title in TITLES.items()
        ],
        kind="map",
        caption=_CAPTION,
        facts=facts,
    )


def _surface(what: str, facts: dict[Fact, float]) -> Series:
    grid = np.array([[facts[what, f"{skew:g}", str(keys)] for skew in SKEWS] for keys in KEYS])
    return Series("change", np.array(SKEWS), np.array(KEYS, dtype=np.float64), z=grid)


def _measured(what: str, runs: Sequence[MeasuredRun], points: Sequence[Point]) -> list[Series]:
    if what not in METRICS:
        return []
    return [
        Series(
            f"{point.ratio(what) - 1:+.0%}",
            np.array([run.config.workload.share]),
            np.array([run.config.workload.keys_per_step], dtype=np.float64),
            "#222222",
        )
        for run, point in zip(runs, points, strict=True)
    ]
