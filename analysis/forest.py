"""The main results of a run as rows of a forest plot: changes by offload, simulated and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from analysis.claims import Claim, answer
from analysis.dedicated_switch import Prediction
from analysis.metrics import METRICS, PS_CPU, PS_PACKETS, WORKER_CPU, Better, Tone
from analysis.summary import Summary

TITLES: Mapping[str, str] = {
    PS_PACKETS.name: "packets to servers",
    "ps_bytes_per_step": "bytes to servers",
    PS_CPU.name: "servers' CPU",
    WORKER_CPU.name: "workers' CPU",
    "pull_mean": "time of a pull",
    "push_mean": "time of a push",
}
MAX_AXIS_LIMIT = 1.0
"""Largest change that the plot's axis shows, as a share of the baseline."""
_AXIS_MARGIN = 1.05  # ratio of the axis to the largest change


@dataclass(frozen=True, slots=True)
class Effect:
    ratio: float
    low: float | None
    high: float | None
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class ForestRow:
    title: str
    better: Better
    dedicated: Effect | None  # simulated, with a dedicated switch
    measured: Effect | None

    @property
    def effects(self) -> list[Effect]:
        return [effect for effect in (self.dedicated, self.measured) if effect is not None]

    def signed_toward_worse(self, ratio: float) -> float:
        """Return a change with its sign set so that positive is worse."""
        return ratio if self.better == "less" else -ratio


def forest(summary: Summary, predicted: Prediction | None) -> list[ForestRow]:
    measured = answer(summary).claims
    dedicated = {} if predicted is None else predicted.claims
    rows = [
        ForestRow(title, METRICS[name].better, _effect(dedicated.get(name)), effect)
        for name, title in TITLES.items()
        if (effect := _effect(measured.get(name))) is not None or name in dedicated
    ]
    capacity = _capacity_row(summary, predicted)
    return [*rows, capacity] if rows and capacity is not None else rows


def _effect(claim: Claim | None) -> Effect | None:
    if claim is None or claim.change.ratio is None:
        return None
    return Effect(claim.change.ratio, claim.change.ratio_low, claim.change.ratio_high, claim.tone)


def _capacity_row(summary: Summary, predicted: Prediction | None) -> ForestRow | None:
    measured = _measured_capacity(summary)
    dedicated = None
    if predicted is not None:
        capacity = predicted.capacity
        tone: Tone = "better" if capacity.low > 1 else "worse" if capacity.high < 1 else ""
        dedicated = Effect(capacity.ratio - 1, capacity.low - 1, capacity.high - 1, tone)
    return ForestRow("capacity", "more", dedicated, measured) if measured or dedicated else None


def _measured_capacity(summary: Summary) -> Effect | None:
    """Return the geometric mean and range of measured capacity ratios; they are too few for an interval."""
    lead = summary.lead
    if lead is None or lead.reference is None or summary.is_simulated:
        return None
    capacities = [summary.capacity, *(check.capacity for check in summary.capacity_checks)]
    ratios = [
        capacity[lead.name] / capacity[lead.reference]
        for capacity in capacities
        if lead.name in capacity and capacity.get(lead.reference)
    ]
    if not ratios:
        return None
    mean = exp(sum(map(log, ratios)) / len(ratios))
    bounds = (min(ratios) - 1, max(ratios) - 1) if len(ratios) > 1 else (None, None)
    return Effect(mean - 1, *bounds)


def axis_limit(rows: Sequence[ForestRow]) -> float:
    """Return the largest change, in either direction, that the plot's axis must show; never 0."""
    bounds = [
        abs(bound)
        for row in rows
        for effect in row.effects
        for bound in (effect.ratio, effect.low, effect.high)
        if bound is not None
    ]
    return min(max(bounds, default=0.0) * _AXIS_MARGIN, MAX_AXIS_LIMIT) or MAX_AXIS_LIMIT
