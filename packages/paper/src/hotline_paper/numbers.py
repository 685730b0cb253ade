"""The numbers of a map: what `make map ARGS=--json` prints, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.claims import claims
from analysis.statistics import Comparison
from foundation.designs.hotset import OFFLOAD
from foundation.settings import Strict
from hotline_paper.costs import METRICS, MeasuredRun
from hotline_paper.map import DataMarker, OffloadMap

CHANGE_METRICS = {"packets": "ps_packets_per_step", **METRICS}
"""Quantity of the map -> the metric of runs that measures it."""


class MapRun(Strict):
    skew: float
    keys_per_step: int
    workers: int
    servers: int
    changes: dict[str, Comparison]
    """Quantity -> the measured change by offload."""
    claimed: tuple[str, ...]
    """The quantities of which a difference is claimed (docs/intervals.md)."""
    disturbed_blocks: int


class MapPlace(Strict):
    """Counted and predicted changes at one place of the map, relative to the value without offload."""

    name: str
    """File name of the user's data; empty for a place of the map's grid."""
    skew: float
    keys_per_step: float
    changes: dict[str, float]


class MapNumbers(Strict):
    runs: tuple[MapRun, ...]
    errors: dict[str, list[float]]
    """Quantity -> the error of predicting each run from the others, in the unit of a change."""
    predicted: tuple[MapPlace, ...]
    data: tuple[MapPlace, ...]


def numbers_of(
    runs: Iterable[MeasuredRun], offload_map: OffloadMap, markers: Sequence[DataMarker]
) -> MapNumbers:
    return MapNumbers(
        runs=tuple(map(_run, runs)),
        errors=offload_map.errors,
        predicted=tuple(
            MapPlace(name="", skew=skew, keys_per_step=keys, changes=changes)
            for (skew, keys), changes in offload_map.changes.items()
        ),
        data=tuple(
            MapPlace(
                name=marker.name, skew=marker.skew, keys_per_step=marker.keys,
                changes=marker.changes(offload_map.costs),
            )
            for marker in markers
        ),
    )  # fmt: skip


def _run(run: MeasuredRun) -> MapRun:
    found = claims(run.summary, next(iter(run.summary.loads)), OFFLOAD.name)
    return MapRun(
        skew=run.config.workload.hot_share,
        keys_per_step=run.config.workload.keys_per_step,
        workers=run.config.workers,
        servers=run.config.servers,
        changes={quantity: run.difference(metric) for quantity, metric in CHANGE_METRICS.items()},
        claimed=tuple(quantity for quantity, metric in CHANGE_METRICS.items() if found[metric].sign),
        disturbed_blocks=run.load.blocks_disturbed,
    )
