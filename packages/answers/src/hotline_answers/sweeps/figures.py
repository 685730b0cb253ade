"""Figures of sweeps: Pan et al. Fig. 1, 7b and 8 (docs/design.md), simulated, and effects of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from analysis.figures.model import Axis, Fact, Figure, Panel, Series, Values, colour_of
from foundation.designs.arms import arm as arm_of
from foundation.designs.arms import arms_in_order
from hotline_answers.sweeps.plan import Sweep
from hotline_answers.sweeps.point import SweptArm, SweptRun
from hotline_simulator.study import Results

Metric = Callable[[SweptArm], float | None]
METRICS: dict[str, Metric] = {
    "capacity, steps/s": lambda arm: arm.capacity,
    "mean pull at half load, µs": lambda arm: arm.pull_mean,
    "p99 of a push at half load, µs": lambda arm: arm.push_p99,
    "p99 of a push that all workers begin at once, µs": lambda arm: arm.closed_push_p99,
    "packets to the servers a step": lambda arm: arm.ps_packets_per_step,
    "servers' CPU a step, µs": lambda arm: arm.ps_cpu_us_per_step,
}
_BASE_WORKERS = 16
_BLACK, _DOTTED = "#000000", 2  # colour, and number of the dash pattern, of an ideal
_LOOP_COLOUR, _RUN_COLOUR = 7, 0  # numbers of colours of series that are not arms


def figures_of(sweeps: Sequence[Sweep], results: Results) -> Iterator[Figure]:
    for sweep in sweeps:
        points = [results.of(point) for point in sweep.points]
        yield overview(sweep, points)
        if sweep.name == "clusters":  # S1 to S6 of packages/answers/README.md
            yield utilisation(sweep, points)
            yield callers(sweep, points)
            yield cost(sweep, points)
        if sweep.name == "training":
            yield training(sweep, points)
            yield communication(sweep, points)
        if sweep.name == "incast":
            yield drops(sweep, points)


def _series_of_arms(sweep: Sweep, points: Sequence[SweptRun], metric: Metric) -> list[Series]:
    x = _x_values(sweep)
    return [
        Series(arm, x, _values(points, arm, metric), colour_of(arm, number), dash=number % 2)
        for number, arm in enumerate(_arm_names(points))
    ]


def _x_values(sweep: Sweep) -> Values:
    return np.array([point.x for point in sweep.points], dtype=np.float64)


def _values(points: Sequence[SweptRun], arm: str, metric: Metric) -> Values:
    values = [metric(run.result.arms[arm]) for run in points]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _arm_names(points: Sequence[SweptRun]) -> list[str]:
    return [arm.name for arm in arms_in_order(set.intersection(*(set(each.result.arms) for each in points)))]


def overview(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    return Figure(
        f"sweep-{sweep.name}",
        sweep.title,
        Axis(sweep.axis, is_log=len(sweep.points) > 1 and min(_x_values(sweep)) > 0),
        Axis("in the unit in each panel's title", is_log=True),
        [Panel(title, _series_of_arms(sweep, points, metric)) for title, metric in METRICS.items()],
        caption="Simulated. Half load is half of the capacity of the slowest arm.",
    )


def training(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    """Plot Pan et al. Fig. 1: training time against n workers; ideally 16/n of the time of 16 workers."""
    x = _x_values(sweep)
    base_index = next(number for number, point in enumerate(sweep.points) if point.x == _BASE_WORKERS)
    lines, facts = [], dict[Fact, float]()
    for number, arm in enumerate(_arm_names(points)):
        rate = _values(points, arm, lambda arm: arm.capacity)
        lines.append(Series(arm, x, 1e6 / rate, colour_of(arm, number), dash=number % 2))
        facts |= {(arm, f"{workers:.0f}"): float(speed) for workers, speed in zip(x, rate / x, strict=True)}
        if arm_of(arm).reference is None:
            ideal = 1e6 / (rate[base_index] / _BASE_WORKERS * x)
            lines.append(Series("ideal", x, ideal, _BLACK, dash=_DOTTED))
    return Figure(
        "fig-01",
        "Training time against workers",
        Axis("workers n", is_log=True),
        Axis("s for a million steps", is_log=True),
        [Panel(sweep.title, lines)],
        caption="Pan et al. Fig. 1, in which communication halves the speed-up at 512 workers; with "
        "Hotline's servers it does not. What lies between a line and the dotted ideal, 16 workers on 16/n of "
        "the data, is communication.",
        facts=facts,
    )


def communication(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    return Figure(
        "fig-01-share",
        "Communication's share of training time",
        Axis("workers", is_log=True),
        Axis("share of a step", is_share=True),
        [Panel(sweep.title, _series_of_arms(sweep, points, lambda arm: arm.simulated.communication))],
        caption="Pan et al. Fig. 1, as a share.",
    )


def utilisation(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    panels: dict[str, Metric] = {
        "workers": lambda arm: arm.simulated.workers_busy,
        "servers": lambda arm: arm.simulated.servers_busy,
    }
    return Figure(
        "fig-08",
        "CPU utilisation of S1 to S6",
        Axis("workers, four to a server"),
        Axis("share of the time", is_share=True),
        [Panel(title, _series_of_arms(sweep, points, metric)) for title, metric in panels.items()],
        caption="Pan et al. Fig. 8: with scale, utilisation falls on workers and rises on servers, to 90 %. "
        "Every worker pulls and pushes as fast as it can.",
    )


def callers(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    """Plot Pan et al. Fig. 7b: unique workers that call a server within 1,000 µs."""
    panels: dict[str, Metric] = {"p50": lambda arm: arm.callers_p50, "p99": lambda arm: arm.callers_p99}
    return Figure(
        "fig-07b",
        "Workers that call one server within 1,000 µs, S1 to S6",
        Axis("workers, four to a server"),
        Axis("unique workers in a window"),
        [Panel(title, _series_of_arms(sweep, points, metric)) for title, metric in panels.items()],
        caption="Pan et al. Fig. 7b: 50 to 200 workers. Windows without a request do not count.",
    )


def drops(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    def share(arm: SweptArm) -> float:
        return arm.simulated.dropped / max(arm.simulated.frames, 1)

    return Figure(
        "incast-drops",
        "Incast: frames that find a queue full",
        Axis("workers", is_log=True),
        Axis("share of all frames", is_share=True),
        [Panel(sweep.title, _series_of_arms(sweep, points, share))],
        caption="Each dropped frame is sent again after 20 ms or more; no update is lost or counted twice.",
    )


def cost(sweep: Sweep, points: Sequence[SweptRun]) -> Figure:
    x = np.array([point.config.workers + point.config.servers for point in sweep.points], dtype=np.float64)
    loop_us = np.array([1e6 * run.cost.loop_s / run.result.rpcs for run in points])
    run_us = np.array([1e6 * run.cost.real_s / run.result.rpcs for run in points])
    return Figure(
        "cost",
        "Real time to simulate an RPC of S1 to S6",
        Axis("nodes"),
        Axis("real time on this machine, µs"),
        [Panel("all arms", [
            Series("event loop", x, loop_us, colour_of("", _LOOP_COLOUR)),
            Series("whole run", x, run_us, colour_of("", _RUN_COLOUR)),
        ])],
        caption="Every frame goes through the P4 program.",
    )  # fmt: skip
