from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from analysis.figures.model import DASHES, Axis, Figure, Panel, Series, colour_of
from hotline_dense.alpha_beta import AlphaBetaModel, GradientSchedule, ScheduleTiming, simulate
from hotline_dense.catalogue import DenseModel
from hotline_dense.fusion import Fusion
from hotline_dense.layers import Values
from hotline_dense.network import (
    AGGREGATION_TITLES,
    AGGREGATIONS,
    MAX_COMPRESSION,
    MAX_GBIT,
    MIN_COMPRESSION,
    MIN_GBIT,
    Aggregation,
    DenseNetwork,
)
from hotline_dense.whatif import TARGET, scaling_factor

GRID = 41  # points on each axis of the map
WORKERS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_STRIPE_COLOURS = ("#3b7dd8", "#9ecae1")  # of neighbouring spans in a row, which alternate
_RIGHT_MARGIN = 1.02  # end of the time axis, as a multiple of the longest time
_TOLERANCE_US = 1e-9  # by which rounding may make a row free too late


def map_axes() -> tuple[Values, Values]:
    """Return the Gbit/s[GRID] and compressions[GRID] of a map, evenly spaced on logarithmic axes."""
    return np.geomspace(MIN_GBIT, MAX_GBIT, GRID), np.geomspace(MIN_COMPRESSION, MAX_COMPRESSION, GRID)


def scaling_map(
    models: Sequence[DenseModel],
    network: DenseNetwork,
    fusion: Fusion,
    target: float = TARGET,
) -> Figure:
    (gbit, compression), panels = map_axes(), []
    for model in models:
        for aggregation in _compared_aggregations(network.aggregation):
            settings = network.model_copy(update={"aggregation": aggregation})
            factors = scaling_factor(model, settings, fusion, gbit, compression[:, None])
            title = f"{model.label}, {AGGREGATION_TITLES[aggregation]}"
            panels.append(
                Panel(title, [Series("scaling factor", gbit, compression, z=factors, level=target)])
            )
    return Figure(
        "scaling-map",
        "Scaling factor, by bandwidth and compression",
        Axis("Gbit/s", is_log=True),
        Axis("compression, ×", is_log=True),
        panels,
        kind="heights",
        caption=f"{network.workers} workers. The line is where {target:g} is reached: above and right of it "
        "a better network, or more compression, gains little.",
    )


def _compared_aggregations(aggregation: Aggregation) -> tuple[Aggregation, Aggregation]:
    return ("ring" if aggregation == "switch" else aggregation, "switch")


def scaling_by_workers(models: Sequence[DenseModel], network: DenseNetwork, fusion: Fusion) -> Figure:
    panels = []
    for model in models:
        lines = []
        for index, aggregation in enumerate(AGGREGATIONS):
            setups = [network.model_copy(update={"aggregation": aggregation, "workers": n}) for n in WORKERS]
            factors = [float(scaling_factor(model, setup, fusion)) for setup in setups]
            x, name = np.array(WORKERS, dtype=np.float64), AGGREGATION_TITLES[aggregation]
            lines.append(Series(name, x, np.array(factors), colour_of(name, index), dash=index % len(DASHES)))
        panels.append(Panel(model.label, lines))
    return Figure(
        "scaling-by-workers",
        f"Scaling factor against workers, {network.gbit:g} Gbit/s",
        Axis("workers", is_log=True),
        Axis("scaling factor", is_share=True, limits=(0.0, 1.0)),
        panels,
        caption="A ring's additions grow with its workers, as do a tree's rounds; a switch that sums sends "
        "each gradient up once and its sum down once.",
    )


def timeline(model: DenseModel, network: AlphaBetaModel, schedules: Sequence[GradientSchedule]) -> Figure:
    """Draw backward's layers and each buffer's all-reduce, for each schedule, in ms since backward began."""
    timings = [simulate(model.layers, network, schedule) for schedule in schedules]
    longest_ms = max(timing.end_us for timing in timings) / 1e3
    return Figure(
        f"timeline-{model.name}",
        f"One backward pass of {model.label}, and what is sent",
        Axis("ms since backward began", limits=(0.0, _RIGHT_MARGIN * longest_ms)),
        Axis(""),
        [Panel(_panel_title(timing), _spans(model, timing)) for timing in timings],
        kind="spans",
        caption="Above, backward, layer by layer from the last to the first. Below it the all-reduces, a row "
        "for each that may be under way at once. An all-reduce begins when its buffer's last gradient is "
        "ready and a row is free.",
    )


def _panel_title(timing: ScheduleTiming) -> str:
    schedule, end_ms = timing.schedule, timing.end_us / 1e3
    return f"{schedule.scheduler}: {len(timing.sizes)} buffers, {schedule.at_once} at once, {end_ms:,.1f} ms"


def _spans(model: DenseModel, timing: ScheduleTiming) -> list[Series]:
    _, ready_times = model.layers.gradients()
    starts = np.concatenate(([0.0], ready_times[:-1]))
    lanes = [f"all-reduce {lane + 1}" for lane in _lanes(timing.start_times, timing.end_times)]
    rows = [("backward", *span) for span in zip(starts, ready_times, strict=True)]
    rows += zip(lanes, timing.start_times, timing.end_times, strict=True)
    stripes: tuple[list[tuple[str, float, float]], list[tuple[str, float, float]]] = ([], [])
    span_counts = Counter[str]()
    for name, start, end in rows:
        stripes[span_counts[name] % 2].append((name, start, end))
        span_counts[name] += 1
    return [
        _series(name, colour, rows_of_stripe)
        for name, colour, rows_of_stripe in zip(("odd", "even"), _STRIPE_COLOURS, stripes, strict=True)
        if rows_of_stripe
    ]


def _series(name: str, colour: str, rows: Sequence[tuple[str, float, float]]) -> Series:
    names, lows, highs = zip(*rows, strict=True)
    low, high = np.array(lows, dtype=np.float64) / 1e3, np.array(highs, dtype=np.float64) / 1e3
    return Series(name, names, high - low, colour, low=low)


def _lanes(start_times: Values, end_times: Values) -> list[int]:
    free_times, lanes = list[float](), list[int]()
    for start, end in zip(start_times.tolist(), end_times.tolist(), strict=True):
        lane = next(
            (k for k, free_time in enumerate(free_times) if free_time <= start + _TOLERANCE_US),
            len(free_times),
        )
        if lane == len(free_times):
            free_times.append(end)
        free_times[lane] = end
        lanes.append(lane)
    return lanes
