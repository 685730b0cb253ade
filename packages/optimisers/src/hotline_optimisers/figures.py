from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.figures.model import Axis, Figure, Panel, Series
from hotline_optimisers.numbers import OptimiserNumbers, TrainingCurve
from hotline_optimisers.plan import ARMS, TITLES

_COLOURS = {arm.label: arm.colour for arm in ARMS}
_SOLID, _DASHED = 0, 1  # indices in `analysis.figures.model.DASHES`
_DASHES = {arm.label: _DASHED if arm.way.startswith("sgd") else _SOLID for arm in ARMS}
_TIME_AXIS, _UPDATES_AXIS = Axis("ms, simulated"), Axis("mini-batches of all workers")
_MAX_LOSS_RATIO = 1.1  # largest loss that is drawn, as a multiple of the loss by chance
METRIC_TITLES = {
    "servers": "servers' CPU for a step",
    "packets": "packets to servers",
    "pull": "time of a pull",
    "step": "time of a step in a closed loop",
}


def figures_of(numbers: OptimiserNumbers) -> list[Figure]:
    return [loss_figure(numbers), offload_map(numbers)]


def loss_figure(numbers: OptimiserNumbers) -> Figure:
    return Figure(
        "optimisers-loss",
        "Loss against time and against updates",
        _TIME_AXIS,
        Axis("log loss, nats"),
        list(_loss_panels(numbers)),
        caption="Mean log loss of each fiftieth of the mini-batches, before their updates; a sample is "
        "trained once. Left: against simulated time, with workers that begin a step as soon as their last "
        "step ends. Right: against the mini-batches of all workers. Each curve has the best of the learning "
        f"rates that were tried, as many for each. Losses above {_MAX_LOSS_RATIO:g} times the loss by chance "
        "are drawn at that value.",
    )


def _loss_panels(numbers: OptimiserNumbers) -> Iterator[Panel]:
    for data in numbers.data:
        for title, axis, x_field in (("time", _TIME_AXIS, "ms"), ("updates", _UPDATES_AXIS, "step")):
            series = [_series(curve, x_field) for curve in numbers.curves_of(data)]
            yield Panel(f"{TITLES[data]}: {title}", series, axis)


def _series(curve: TrainingCurve, x_field: str) -> Series:
    loss_curve = curve.result.loss_curve
    x = np.array(loss_curve.ms if x_field == "ms" else loss_curve.step)
    loss = np.minimum(loss_curve.loss, _MAX_LOSS_RATIO * curve.result.chance_loss)
    return Series(curve.label, x, loss, _COLOURS[curve.label], _DASHES[curve.label])


def offload_map(numbers: OptimiserNumbers) -> Figure:
    """Draw the changes by offload against the share of hits and the budget."""
    hit_shares = sorted({point.hit_share for point in numbers.points})
    bounds = sorted({point.budget.staleness_ms for point in numbers.points})
    changes_by_point = {(point.hit_share, point.budget.staleness_ms): point.worth for point in numbers.points}

    def surface(name: str) -> Series:
        z = np.array(
            [[getattr(changes_by_point[hit_share, ms], name) for hit_share in hit_shares] for ms in bounds]
        )
        return Series("change", np.array(hit_shares), np.array(bounds), z=z)

    shares = {point.budget.staleness_ms: point.budget.share_of_server for point in numbers.points}
    share_texts = ", ".join(f"{shares[ms]:g} with {ms:,g} ms" for ms in bounds)
    return Figure(
        "optimisers-map",
        "What collect changes against Adagrad at the servers, by share of hits and budget",
        Axis("share of the updates that hit the switch", is_share=True),
        Axis("bound of staleness, ms", is_log=True),
        [Panel(title, [surface(name)]) for name, title in METRIC_TITLES.items()],
        kind="map",
        caption="Green is better, red is worse, in % of the value without the switch, at half of the "
        f"capacity of servers alone. Shares of a server's time for collections: {share_texts}.",
    )
