"""Predict a dedicated switch by simulation; the simulation's error for this run widens the intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from typing import NamedTuple

from analysis.claims import Claim, Recommendation, recommend
from analysis.metrics import Metric, answer_metrics
from analysis.record import Json
from analysis.statistics import Comparison
from analysis.summary import Summary
from foundation.designs.interface import Arm


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacities in steps/s, and their ratio with bounds by the model's error, since there are no rounds."""

    lead: float
    reference: float
    ratio: float
    low: float
    high: float


class Check(NamedTuple):
    metric: Metric
    simulated: Comparison
    measured: Comparison


@dataclass(frozen=True, slots=True)
class Prediction:
    load: str
    lead: Arm
    recommendation: Recommendation
    claims: Mapping[str, Claim]
    capacity: Capacity
    network: Json
    checks: Sequence[Check]
    """Checks with the cores of the run's machine, for all metrics but counts."""

    @property
    def misses(self) -> list[Check]:
        return [check for check in self.checks if _are_disjoint(check.simulated, check.measured)]


def predict(summary: Summary) -> Prediction | None:
    virtual, lead = summary.virtual, summary.lead
    if virtual is None or lead is None or lead.reference is None or virtual.load not in summary.loads:
        return None
    measured = summary.loads[virtual.load].differences.get(lead.name, {})
    metric_by_name = {metric.name: metric for metric in answer_metrics()}
    claims = {
        name: Claim(metric, widen(virtual.own[name], virtual.shared[name], measured[name]))
        for name, metric in metric_by_name.items()
        if name in virtual.own and name in virtual.shared and name in measured
    }
    dedicated_ratio, shared_ratio, measured_ratio = (
        capacities[lead.name] / capacities[lead.reference]
        for capacities in (virtual.own_capacity, virtual.shared_capacity, summary.capacity)
    )
    # The model's error, as a logarithm: it is a factor of the ratio in either direction.
    error = abs(log(shared_ratio / measured_ratio))
    return Prediction(
        load=virtual.load,
        lead=lead,
        recommendation=recommend(claims, was_run=lead.name in summary.capacity),
        claims=claims,
        capacity=Capacity(
            lead=virtual.own_capacity[lead.name],
            reference=virtual.own_capacity[lead.reference],
            ratio=dedicated_ratio,
            low=dedicated_ratio * exp(-error),
            high=dedicated_ratio * exp(error),
        ),
        network=virtual.network,
        checks=[
            Check(metric, simulated=virtual.shared[metric.name], measured=measured[metric.name])
            for metric in answer_metrics()
            if metric.kind != "count" and _has_ratio(virtual.shared, metric) and _has_ratio(measured, metric)
        ],
    )


def _are_disjoint(first: Comparison, other: Comparison) -> bool:
    bounds = (first.ratio_low, first.ratio_high, other.ratio_low, other.ratio_high)
    if any(bound is None for bound in bounds):
        return False
    low, high, other_low, other_high = (bound for bound in bounds if bound is not None)
    return low > other_high or other_low > high


def _has_ratio(comparisons: Mapping[str, Comparison], metric: Metric) -> bool:
    return metric.name in comparisons and comparisons[metric.name].ratio is not None


def widen(dedicated: Comparison, shared: Comparison, measured: Comparison) -> Comparison:
    """Widen an interval on either side by the model's error, in logarithms of the ratios."""
    if (
        dedicated.ratio_low is None
        or dedicated.ratio_high is None
        or shared.ratio is None
        or measured.ratio is None
    ):
        return dedicated
    error = abs(log1p(shared.ratio) - log1p(measured.ratio))
    low, high = expm1(log1p(dedicated.ratio_low) - error), expm1(log1p(dedicated.ratio_high) + error)
    reference = dedicated.reference
    bounds = {"low": low * reference, "high": high * reference, "ratio_low": low, "ratio_high": high}
    return dedicated.model_copy(update=bounds)
