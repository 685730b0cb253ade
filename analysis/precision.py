"""How narrow the intervals of pull and push are, and how narrow they have to be for a run to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from analysis.metrics import METRICS
from analysis.statistics import Comparison

LEAST_ROUNDS = 10
"""Rounds before which no run ends for its precision: the fewer, the more a narrow interval is luck."""


class Width(BaseModel):
    """How wide an interval is."""

    model_config = ConfigDict(frozen=True)

    load: str
    arm: str
    metric: str
    half_width: float
    """As a share of the baseline."""
    goal: float


def goals() -> dict[str, float]:
    """Metric -> half width, as a share of the baseline, below which an interval is narrow enough."""
    return {metric.name: metric.goal for metric in METRICS.values() if metric.goal is not None}


def widths(load: str, differences: Mapping[str, Mapping[str, Comparison]]) -> Iterator[Width]:
    """Of all intervals of a load that there is a goal for."""
    for arm, metrics in differences.items():
        for metric, goal in goals().items():
            found = metrics.get(metric)
            if found is not None and found.half_width is not None:
                yield Width(load=load, arm=arm, metric=metric, half_width=found.half_width, goal=goal)


def widest(found: Iterable[Width]) -> Width | None:
    """The one that is farthest from its goal; None without any."""
    return max(found, key=lambda width: width.half_width / width.goal, default=None)
