"""Predict a dedicated switch by simulation; the simulation's error for this run widens the intervals.

The simulation rests on costs that were measured in the run. If too many of the blocks in which they were
measured were disturbed, or if the simulation is far from what was measured, nothing is claimed that is
computed from costs. If any block was disturbed, intervals are wider: the error is then the largest that the
measured intervals allow. They are also wider by what other programs took of the CPUs below the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from statistics import geometric_mean
from typing import NamedTuple

from analysis.claims import Recommendation, recommend
from analysis.disturbed_blocks import DisturbedBlocks, are_disturbed, withheld_by
from analysis.metrics import AGENTS_CPU, Metric, answer_metrics, metrics_of_subject
from analysis.record import Json, Virtual
from analysis.statistics import Comparison
from analysis.summary import Summary
from analysis.verdict import Claim, Misfit, Verdict
from foundation.designs.interface import Arm

MAX_LEVEL_FACTOR = 2.0
"""Factor between a simulated and a measured time or capacity beyond which the simulation does not describe
the run. The largest of 27 recorded runs of `make evidence`, on two quiet cores, is 1.6."""


@dataclass(frozen=True, slots=True)
class CostReservations:
    """Reasons against claims from a run's costs: disturbed blocks, and values that are far off."""

    disturbed: DisturbedBlocks | None = None
    misfit: Misfit | None = None
    is_any_disturbed: bool = False
    """Whether any block was disturbed in which costs were measured."""
    taken: float = 0.0
    """Largest share of the CPUs' time that others took in blocks of one kind."""

    @property
    def error(self) -> float:
        """Logarithm of the factor by which others may have changed the ratio of two arms.

        At worst all that they took, they took from one of the two.
        """
        return log1p(2 * self.taken)

    @property
    def verdict(self) -> Verdict | None:
        """The reason not to claim anything that is computed from the costs; None if there is none."""
        if self.disturbed is not None:
            return Verdict.DISTURBED
        return None if self.misfit is None else Verdict.MISFIT


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
    reservations: CostReservations = CostReservations()

    @property
    def sign(self) -> int:
        if self.low is None or self.high is None or self.reservations.verdict is not None:
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
    reservations: CostReservations = CostReservations()

    @property
    def misses(self) -> list[SimulationCheck]:
        return [check for check in self.checks if _are_disjoint(check.simulated, check.measured)]


def predict(summary: Summary) -> DedicatedSwitchPrediction | None:
    virtual, lead = summary.virtual, summary.lead
    if virtual is None or lead is None or lead.reference is None or virtual.load not in summary.loads:
        return None
    measured = summary.loads[virtual.load].differences.get(lead.name, {})
    metric_by_name = {metric.name: metric for metric in (*answer_metrics(), AGENTS_CPU)}
    reservations = _reservations(summary, virtual, lead, measured)
    claims = {
        name: _claim(metric, virtual.own[name], virtual.shared[name], measured[name], reservations)
        for name, metric in metric_by_name.items()
        if name in virtual.own and name in virtual.shared and name in measured
        if not virtual.own[name].is_from_zero_to_zero
    }
    return DedicatedSwitchPrediction(
        load=virtual.load,
        lead=lead,
        recommendation=Recommendation.COSTS_WITHHELD
        if reservations.verdict is not None
        else recommend(claims, was_run=lead.name in summary.capacity),
        claims=claims,
        capacity=_capacity(summary, virtual, lead.name, lead.reference, reservations),
        network=virtual.network,
        checks=[
            SimulationCheck(metric, simulated=virtual.shared[metric.name], measured=measured[metric.name])
            for metric in answer_metrics()
            if metric.kind != "count" and _has_ratio(virtual.shared, metric) and _has_ratio(measured, metric)
        ],
        reservations=reservations,
    )


def _reservations(
    summary: Summary, virtual: Virtual, lead: Arm, measured: Mapping[str, Comparison]
) -> CostReservations:
    # What disturbs measured times also disturbs costs; records of before have no other sources.
    of_times = summary.loads[virtual.load].invalidated_by.get(lead.name, {}).get("time")
    sources = virtual.sources if of_times is None else (*virtual.sources, of_times)
    return CostReservations(
        disturbed=withheld_by(sources),
        misfit=next(_misfits(summary, virtual, lead, measured), None),
        is_any_disturbed=are_disturbed(virtual.sources),
        taken=max((blocks.taken for blocks in virtual.sources), default=0.0),
    )


def _misfits(
    summary: Summary, virtual: Virtual, lead: Arm, measured: Mapping[str, Comparison]
) -> Iterator[Misfit]:
    """Yield the times of operations and the capacities that the simulation of the run does not reproduce."""
    arms = (lead.reference or "", lead.name)
    levels = [
        Misfit(metric.noun, arm, simulated, of_run, "µs")
        for metric in metrics_of_subject("answer", "operations")
        if _has_ratio(virtual.shared, metric) and _has_ratio(measured, metric)
        for arm, simulated, of_run in zip(
            arms, _levels(virtual.shared[metric.name]), _levels(measured[metric.name]), strict=True
        )
    ]
    for arm in arms:
        rates = [rates[arm] for rates in summary.measured_capacities if rates.get(arm)]
        if rates and virtual.shared_capacity.get(arm):
            levels.append(
                Misfit("capacity", arm, virtual.shared_capacity[arm], geometric_mean(rates), "steps/s")
            )
    for level in levels:
        low, high = sorted((level.simulated, level.measured))
        if high > MAX_LEVEL_FACTOR * low > 0:
            yield level


def _levels(comparison: Comparison) -> tuple[float, float]:
    return comparison.reference, comparison.value


def _capacity(
    summary: Summary, virtual: Virtual, lead: str, reference: str, reservations: CostReservations
) -> Capacity | None:
    dedicated, shared, measured = (
        capacity_ratios(capacities, lead, reference)
        for capacities in ([virtual.own_capacity], [virtual.shared_capacity], summary.measured_capacities)
    )
    if not dedicated:
        return None
    [ratio] = dedicated
    low = high = None
    if shared and measured:
        # The model's error, as a logarithm: it is a factor of the ratio in either direction.
        known = measured if reservations.is_any_disturbed else [geometric_mean(measured)]
        error = max(abs(log(shared[0] / each)) for each in known) + reservations.error
        low, high = ratio * exp(-error), ratio * exp(error)
    return Capacity(
        lead=virtual.own_capacity[lead],
        reference=virtual.own_capacity[reference],
        ratio=ratio,
        low=low,
        high=high,
        reservations=reservations,
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


def _claim(
    metric: Metric, dedicated: Comparison, shared: Comparison, measured: Comparison,
    reservations: CostReservations,
) -> Claim:  # fmt: skip
    is_checked = not any(change.ratio is None for change in (dedicated, shared, measured))
    if metric.kind == "count":
        # Costs change how long something takes, and hardly how many packets are sent.
        reservations = CostReservations()
    return Claim(
        metric,
        widen(dedicated, shared, measured, reservations),
        disturbed=reservations.disturbed,
        misfit=reservations.misfit,
        is_unchecked=not is_checked,
    )


def widen(
    dedicated: Comparison, shared: Comparison, measured: Comparison,
    reservations: CostReservations = CostReservations(),
) -> Comparison:  # fmt: skip
    """Widen an interval on either side by the model's error.

    The error is a factor of the ratio of values. Where the model or the measurement has a value of 0, there
    is no factor, and the error is the distance of the two changes. It is the distance to the measured change,
    or, if costs are from disturbed blocks, to the farther end of its interval.
    """
    if (
        dedicated.ratio_low is None
        or dedicated.ratio_high is None
        or shared.ratio is None
        or measured.ratio is None
    ):
        return dedicated
    ends = (measured.ratio_low, measured.ratio_high) if reservations.is_any_disturbed else ()
    changes = [measured.ratio, *(end for end in ends if end is not None)]
    low, high, reference = dedicated.ratio_low, dedicated.ratio_high, dedicated.reference
    if min(shared.ratio, *changes) > -1:
        error = max(abs(log1p(shared.ratio) - log1p(change)) for change in changes) + reservations.error
        low, high = (1 + low) / exp(error) - 1, (1 + high) * exp(error) - 1
    else:
        distance = max(abs(shared.ratio - change) for change in changes) + expm1(reservations.error)
        low, high = max(low - distance, -1.0), high + distance
    bounds = {"low": low * reference, "high": high * reference, "ratio_low": low, "ratio_high": high}
    return dedicated.model_copy(update=bounds)
