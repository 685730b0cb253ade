"""Predict a dedicated switch by simulation; the simulation's error for this run widens the intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log1p
from statistics import geometric_mean
from typing import NamedTuple

from analysis.claims import Recommendation, recommend
from analysis.metrics import Metric, answer_metrics
from analysis.record import Json, Virtual
from analysis.statistics import Comparison
from analysis.summary import Summary
from analysis.verdict import Claim
from foundation.designs.interface import Arm


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacities in steps/s, and their ratio with bounds by the model's error, since there are no rounds.

    The error is the distance to the geometric mean of the ratios that the run has measured. Without a
    measured capacity of both arms the error is unknown, and there are no bounds.
    """

    lead: float
    reference: float
    ratio: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 1) - int(self.high < 1)


class SimulationCheck(NamedTuple):
    metric: Metric
    simulated: Comparison
    measured: Comparison


@dataclass(frozen=True, slots=True)
class DedicatedSwitchPrediction:
    load: str
    lead: Arm
    recommendation: Recommendation
    claims: Mapping[str, Claim]
    capacity: Capacity | None
    network: Json
    checks: Sequence[SimulationCheck]
    """Checks with the cores of the run's machine, for all metrics but counts."""

    @property
    def misses(self) -> list[SimulationCheck]:
        return [check for check in self.checks if _are_disjoint(check.simulated, check.measured)]


def predict(summary: Summary) -> DedicatedSwitchPrediction | None:
    virtual, lead = summary.virtual, summary.lead
    if virtual is None or lead is None or lead.reference is None or virtual.load not in summary.loads:
        return None
    measured = summary.loads[virtual.load].differences.get(lead.name, {})
    metric_by_name = {metric.name: metric for metric in answer_metrics()}
    claims = {
        name: _claim(metric, virtual.own[name], virtual.shared[name], measured[name])
        for name, metric in metric_by_name.items()
        if name in virtual.own and name in virtual.shared and name in measured
        if not virtual.own[name].is_from_zero_to_zero
    }
    return DedicatedSwitchPrediction(
        load=virtual.load,
        lead=lead,
        recommendation=recommend(claims, was_run=lead.name in summary.capacity),
        claims=claims,
        capacity=_capacity(summary, virtual, lead.name, lead.reference),
        network=virtual.network,
        checks=[
            SimulationCheck(metric, simulated=virtual.shared[metric.name], measured=measured[metric.name])
            for metric in answer_metrics()
            if metric.kind != "count" and _has_ratio(virtual.shared, metric) and _has_ratio(measured, metric)
        ],
    )


def _capacity(summary: Summary, virtual: Virtual, lead: str, reference: str) -> Capacity | None:
    dedicated, shared, measured = (
        capacity_ratios(capacities, lead, reference)
        for capacities in ([virtual.own_capacity], [virtual.shared_capacity], summary.capacities)
    )
    if not dedicated:
        return None
    [ratio] = dedicated
    low = high = None
    if shared and measured:
        # The model's error, as a logarithm: it is a factor of the ratio in either direction.
        error = abs(log(shared[0] / geometric_mean(measured)))
        low, high = ratio * exp(-error), ratio * exp(error)
    return Capacity(
        lead=virtual.own_capacity[lead],
        reference=virtual.own_capacity[reference],
        ratio=ratio,
        low=low,
        high=high,
    )


def capacity_ratios(capacities: Iterable[Mapping[str, float]], lead: str, reference: str) -> list[float]:
    """Return the ratio of two arms in each measurement that has both."""
    return [
        capacity[lead] / capacity[reference]
        for capacity in capacities
        if capacity.get(lead) and capacity.get(reference)
    ]


def _are_disjoint(first: Comparison, other: Comparison) -> bool:
    bounds = (first.ratio_low, first.ratio_high, other.ratio_low, other.ratio_high)
    if any(bound is None for bound in bounds):
        return False
    low, high, other_low, other_high = (bound for bound in bounds if bound is not None)
    return low > other_high or other_low > high


def _has_ratio(comparisons: Mapping[str, Comparison], metric: Metric) -> bool:
    return metric.name in comparisons and comparisons[metric.name].ratio is not None


def _claim(metric: Metric, dedicated: Comparison, shared: Comparison, measured: Comparison) -> Claim:
    is_checked = not any(change.ratio is None for change in (dedicated, shared, measured))
    return Claim(metric, widen(dedicated, shared, measured), is_unchecked=not is_checked)


def widen(dedicated: Comparison, shared: Comparison, measured: Comparison) -> Comparison:
    """Widen an interval on either side by the model's error.

    The error is a factor of the ratio of values. Where the model or the measurement has a value of 0, there
    is no factor, and the error is the distance of the two changes.
    """
    if (
        dedicated.ratio_low is None
        or dedicated.ratio_high is None
        or shared.ratio is None
        or measured.ratio is None
    ):
        return dedicated
    low, high, reference = dedicated.ratio_low, dedicated.ratio_high, dedicated.reference
    if min(shared.ratio, measured.ratio) > -1:
        factor = exp(abs(log1p(shared.ratio) - log1p(measured.ratio)))
        low, high = (1 + low) / factor - 1, (1 + high) * factor - 1
    else:
        error = abs(shared.ratio - measured.ratio)
        low, high = max(low - error, -1.0), high + error
    bounds = {"low": low * reference, "high": high * reference, "ratio_low": low, "ratio_high": high}
    return dedicated.model_copy(update=bounds)
