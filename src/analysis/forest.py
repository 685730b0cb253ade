"""The main results of a run as rows of a forest plot: changes by the switch, simulated and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from analysis.claims import Claims, answer, claim_of_capacity
from analysis.dedicated_switch import Capacity, DedicatedSwitchPrediction, capacity_ratios
from analysis.metrics import (
    AGENTS_CPU,
    CAPACITY,
    METRICS,
    PS_CPU,
    PS_CPU_WITHOUT_SWITCH,
    PS_PACKETS,
    WORKER_CPU,
    Better,
    Tone,
)
from analysis.statistics import Comparison, comparison_of_ratio
from analysis.summary import Summary
from analysis.verdict import Claim, Verdict

TITLES: Mapping[str, str] = {
    PS_PACKETS.name: "packets to servers",
    "ps_bytes_per_step": "bytes to servers",
    PS_CPU.name: "servers' CPU",
    PS_CPU_WITHOUT_SWITCH.name: "servers' CPU w/o switch",
    WORKER_CPU.name: "workers' CPU",
    AGENTS_CPU.name: "CPU of all agents",
    "pull_mean": "time of a pull",
    "push_mean": "time of a push",
}
MAX_AXIS_LIMIT = 1.0
"""Largest change that the plot's axis shows, as a share of the baseline."""
_AXIS_MARGIN = 1.05  # ratio of the axis to the largest change


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of one row in one column; None if nothing was measured. Not all changes are of a `Claim`."""

    change: Comparison | None
    verdict: Verdict
    tone: Tone = ""
    claim: Claim | None = None

    @property
    def reason(self) -> tuple[object, ...]:
        return (self.verdict,) if self.claim is None else self.claim.explain(self.verdict)

    @property
    def bounds(self) -> tuple[float, float, float] | None:
        """Low end, ratio and high end; None without a ratio. Without an interval the ends are the ratio."""
        if self.change is None or self.change.ratio is None:
            return None
        ratio, low, high = self.change.ratio, self.change.ratio_low, self.change.ratio_high
        return (ratio if low is None else low, ratio, ratio if high is None else high)


_NOT_MEASURED = Effect(None, Verdict.NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class ForestRow:
    title: str
    better: Better
    dedicated: Effect | None  # simulated, with a dedicated switch; None in all rows without a prediction
    measured: Effect

    @property
    def effects(self) -> list[Effect]:
        return [effect for effect in (self.dedicated, self.measured) if effect is not None]

    @property
    def marks(self) -> int:
        """Number of effects that the plot marks."""
        return sum(effect.bounds is not None for effect in self.effects)

    def signed_toward_worse(self, ratio: float) -> float:
        """Return a change with its sign set so that positive is worse."""
        return ratio if self.better == "less" else -ratio


def forest(summary: Summary, predicted: DedicatedSwitchPrediction | None) -> list[ForestRow]:
    measured = answer(summary).claims
    dedicated = {} if predicted is None else predicted.claims
    rows = [
        ForestRow(
            title,
            METRICS[name].better,
            None if predicted is None else _effect(dedicated, name),
            _effect(measured, name),
        )
        for name, title in TITLES.items()
        if name in measured or name in dedicated
    ]
    capacity = _capacity_row(summary, predicted)
    return [*rows, capacity] if rows and capacity is not None else rows


def _effect(claims: Claims, name: str) -> Effect:
    if name not in claims:
        return _NOT_MEASURED
    claim = claims[name]
    return Effect(claim.change, claim.verdict, claim.tone, claim)


def _capacity_row(summary: Summary, predicted: DedicatedSwitchPrediction | None) -> ForestRow | None:
    measured = _measured_capacity(summary)
    dedicated = None if predicted is None else _dedicated_capacity(predicted.capacity)
    effects = [effect for effect in (measured, dedicated) if effect is not None]
    if all(effect.change is None for effect in effects):
        return None
    return ForestRow(CAPACITY.label, CAPACITY.better, dedicated, measured)


def _dedicated_capacity(capacity: Capacity | None) -> Effect:
    if capacity is None:
        return _NOT_MEASURED
    change = comparison_of_ratio(capacity.reference, capacity.ratio, capacity.low, capacity.high)
    if (withheld := capacity.reservations.verdict) is not None:
        of_costs = capacity.reservations
        claim = Claim(CAPACITY, change, disturbed=of_costs.disturbed, misfit=of_costs.misfit)
        return Effect(change, withheld, claim=claim)
    unclaimed = Verdict.UNCHECKED if capacity.low is None else Verdict.CONTAINS_ZERO
    verdicts = {-1: Verdict.LESS, 0: unclaimed, 1: Verdict.MORE}
    return Effect(change, verdicts[capacity.sign], CAPACITY.tone(capacity.sign))


def _measured_capacity(summary: Summary) -> Effect:
    """Return the change in the checks at the end, with an interval if there are enough of them.

    Otherwise it is the geometric mean of the ratios of all measurements, with their range.
    """
    lead = summary.lead
    if lead is None or lead.reference is None or summary.is_simulated:
        return _NOT_MEASURED
    if (claim := claim_of_capacity(summary, lead)) is not None:
        return Effect(claim.change, claim.verdict, claim.tone, claim)
    ratios = capacity_ratios(summary.capacities, lead.name, lead.reference)
    if not ratios:
        return _NOT_MEASURED
    bounds = (min(ratios), max(ratios)) if len(ratios) > 1 else (None, None)
    reference = fmean(each[lead.reference] for each in summary.capacities if each.get(lead.reference))
    change = comparison_of_ratio(reference, geometric_mean(ratios), *bounds)
    return Effect(change, Verdict.FEW_CAPACITIES)


def axis_limit(rows: Sequence[ForestRow]) -> float:
    """Return the largest change, in either direction, that the plot's axis must show; never 0."""
    bounds = [abs(bound) for row in rows for effect in row.effects for bound in effect.bounds or ()]
    return min(max(bounds, default=0.0) * _AXIS_MARGIN, MAX_AXIS_LIMIT) or MAX_AXIS_LIMIT
