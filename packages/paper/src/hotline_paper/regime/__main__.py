"""`python -m hotline_paper.regime --into FOLDER`: fit the paper's regime, simulate it and print JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import numpy as np

from foundation.designs.hotset import BASELINE
from foundation.settings import Strict
from hotline.cli.common import one_line_errors
from hotline_paper.regime.fit import RegimeFit, fit_to_figures
from hotline_paper.regime.held_out import CLUSTERS, CONNECTIONS_IN_FIG_9, READING_ERROR, SERVERS_BUSY_AT_S6
from hotline_paper.regime.model import Parameters, observe
from hotline_paper.regime.points import (
    ALL_ARMS,
    TWO_ARMS,
    RegimePoint,
    RegimeResult,
    cluster_config,
    settings_of,
)
from hotline_paper.regime.readings import (
    BASE_WORKERS,
    LARGEST_WORKERS,
    READINGS,
    SERVERS,
    SERVERS_IN_FIG_1,
    predicted_readings,
)
from hotline_simulator.study import run_points

MIDDLE, LEAST_BUSY, BUSIEST, DEFAULT = "middle", "least busy", "most busy", "default"
"""Regimes: the fit's middle, the accepted points with the least and most busy servers at S6, and the
simulator's default costs."""
ASSUMED, OTHER = SERVERS_IN_FIG_1
"""Names of the two ways to read Fig. 1; all regimes but `OTHER` are of the first."""
Range = tuple[float, float, float]
"""Smallest value of all accepted points, that of the middle, and the largest."""


class FitReport(Strict):
    size: int
    accepted: int
    parameters: dict[str, Range]
    readings: dict[str, Range]
    rejections: dict[str, int]
    servers_busy: dict[str, Range]
    """Utilisation by the name of a cluster of Table 2."""
    workers_busy: dict[str, Range]
    agreeing_at_s6: float
    """Share of the accepted points whose servers are as busy in S6 as in Fig. 8, to `READING_ERROR`."""
    rising_servers: float
    """Share of the accepted points whose servers are busier in each cluster than in the one before it."""
    falling_workers: float
    """Share of the accepted points whose workers are less busy in S6 than in S1."""
    added_by_connections_us: Range
    """Delay of an empty RPC that `CONNECTIONS_IN_FIG_9` connections add."""


class RegimeReport(Strict):
    fits: dict[str, FitReport]
    points: dict[str, dict[str, RegimeResult]]
    """Regime -> cluster -> result."""


def fit_report(found: RegimeFit, name: str) -> FitReport:
    servers_of = SERVERS_IN_FIG_1[name]
    readings = zip(
        predicted_readings(found.accepted, servers_of), predicted_readings(found.middle, servers_of),
        strict=True,
    )  # fmt: skip
    names = [f"Fig. {each.figure}: {each.quantity}" for each in READINGS]
    clusters = {
        cluster: (observe(found.accepted, *size), observe(found.middle, *size))
        for cluster, size in CLUSTERS.items()
    }
    busy = np.stack([every.servers_busy for every, _ in clusters.values()])
    return FitReport(
        size=found.size,
        accepted=len(np.asarray(found.accepted.serve_us)),
        parameters={
            each: _range(getattr(found.accepted, each), getattr(found.middle, each))
            for each in Parameters._fields
        },
        readings={each: _range(*values) for each, values in zip(names, readings, strict=True)},
        rejections=dict(zip(names, found.rejections, strict=True)),
        servers_busy={
            each: _range(every.servers_busy, middle.servers_busy)
            for each, (every, middle) in clusters.items()
        },
        workers_busy={
            each: _range(every.workers_busy, middle.workers_busy)
            for each, (every, middle) in clusters.items()
        },
        agreeing_at_s6=float((np.abs(busy[-1] - SERVERS_BUSY_AT_S6) <= READING_ERROR).mean()),
        rising_servers=float((np.diff(busy, axis=0) > 0).all(axis=0).mean()),
        falling_workers=float((clusters["S6"][0].workers_busy < clusters["S1"][0].workers_busy).mean()),
        added_by_connections_us=_range(
            1e-3 * CONNECTIONS_IN_FIG_9 * np.asarray(found.accepted.connection_ns),
            1e-3 * CONNECTIONS_IN_FIG_9 * np.asarray(found.middle.connection_ns),
        ),
    )


def _range(values: object, middle: object) -> Range:
    every = np.asarray(values, np.float64)
    return float(every.min()), float(np.asarray(middle)), float(every.max())


def regimes_of(fits: Mapping[str, RegimeFit]) -> dict[str, Parameters]:
    """Return the parameters of the regimes that are simulated, without the default one."""
    found = fits[ASSUMED]
    busy = observe(found.accepted, *CLUSTERS["S6"]).servers_busy
    least_busy, busiest = (
        Parameters(*(float(np.asarray(each)[number]) for each in found.accepted))
        for number in (int(np.argmin(busy)), int(np.argmax(busy)))
    )
    return {MIDDLE: found.middle, LEAST_BUSY: least_busy, BUSIEST: busiest, OTHER: fits[OTHER].middle}


def points_of(regimes: Mapping[str, Parameters]) -> Iterator[RegimePoint]:
    all_settings = {**{name: settings_of(each) for name, each in regimes.items()}, DEFAULT: {}}
    for regime, settings in all_settings.items():
        arms = TWO_ARMS if regime == DEFAULT else ALL_ARMS
        yield _point(regime, "S1", settings, CLUSTERS["S1"], arms)
        if regime in (MIDDLE, DEFAULT):
            yield _point(regime, "S6", settings, CLUSTERS["S6"], arms)
            yield from _points_of_fig_1(regime, settings)
    for cluster in ("S2", "S3", "S4", "S5"):
        yield _point(MIDDLE, cluster, all_settings[MIDDLE], CLUSTERS[cluster], TWO_ARMS)
    for regime in (LEAST_BUSY, BUSIEST, OTHER):
        yield _point(regime, "S6", all_settings[regime], CLUSTERS["S6"], TWO_ARMS)


def _points_of_fig_1(regime: str, settings: Mapping[str, object]) -> Iterator[RegimePoint]:
    for workers in (BASE_WORKERS, LARGEST_WORKERS):
        yield _point(regime, f"{workers}", settings, (workers, SERVERS), (BASELINE.name,))


def _point(
    regime: str, label: str, settings: Mapping[str, object], size: tuple[int, int], arms: tuple[str, ...]
) -> RegimePoint:
    return RegimePoint(regime=regime, label=label, config=cluster_config(settings, *size, arms))


def _progress(done: int, total: int, title: str) -> None:
    print(f"{done} of {total} {title}", file=sys.stderr, flush=True)


@click.command()
@click.option("--into", type=click.Path(path_type=Path), required=True, help="Folder of the points' results.")
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="Processes at once.")
def main(into: Path, processes: int) -> None:
    """Fit the paper's regime to its figures, simulate clusters in it, and print both as JSON."""
    with one_line_errors():
        fits = {name: fit_to_figures(name) for name in SERVERS_IN_FIG_1}
        points = list(points_of(regimes_of(fits)))
        results = run_points(points, into, None, processes, _progress)
    by_regime: dict[str, dict[str, RegimeResult]] = {}
    for point in points:
        by_regime.setdefault(point.regime, {})[point.label] = results.of(point)
    report = RegimeReport(
        fits={name: fit_report(found, name) for name, found in fits.items()}, points=by_regime
    )
    print(json.dumps(report.model_dump(mode="json"), indent=1))


if __name__ == "__main__":
    main()
