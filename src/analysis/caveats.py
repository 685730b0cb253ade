"""Statements of a report beside differences: slow agents, drift of the capacity, short blocks, goodput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from analysis.claims import answer, claims, select_claims
from analysis.metrics import metrics_of_subject
from analysis.record import COMPILED_CODEC, AgentCost, CapacityCheck, capacity_by_arm, min_capacity
from analysis.summary import Summary
from analysis.verdict import Claim
from foundation.designs.arms import arms_by_reference

BMV2 = "bmv2"
MAX_DRIFT = 0.1
"""Relative change of the capacity above which the report warns."""
MAX_HOT_PART = 0.1
"""Share of a model in the switch above which the report warns; Pan et al. have 2 % (20,000 of 900,000)."""
P99_STEPS = 100
"""Number of steps below which the p99 of a block is its slowest step."""


@dataclass(frozen=True, slots=True)
class SlowAgents:
    codec: str
    cost: AgentCost
    compiled: AgentCost | None
    """Cost of compiled agents, measured in the same run; None without numba, which compiles them."""

    @property
    def slowdown(self) -> float | None:
        if self.compiled is None:
            return None
        return (self.cost.worker_us + self.cost.server_us) / (
            self.compiled.worker_us + self.compiled.server_us
        )


@dataclass(frozen=True, slots=True)
class OperationClaims:
    load: str
    reference: str
    arms: Sequence[tuple[str, Sequence[Claim]]]


@dataclass(frozen=True, slots=True)
class Drift:
    """The lowest capacity of any arm, in steps/s, at several times of a run."""

    first_capacity: float
    later_capacities: Sequence[tuple[str, float]]
    """(time in the run, minimum capacity)."""

    @property
    def largest_change(self) -> tuple[str, float]:
        """The time of the largest change, and the capacity then as a ratio to the first."""
        ratios = [(when, rate / self.first_capacity) for when, rate in self.later_capacities]
        return max(ratios, key=lambda change: abs(change[1] - 1))

    @property
    def is_large(self) -> bool:
        return abs(self.largest_change[1] - 1) > MAX_DRIFT


@dataclass(frozen=True, slots=True)
class OnBmv2:
    """The rates that a run on BMv2 carried with offload and without; None where they were not measured."""

    lead: Carried | None
    reference: Carried | None
    loses: bool
    """Whether operations take longer with offload, by a claim, and none are claimed to be shorter."""


@dataclass(frozen=True, slots=True)
class Carried:
    steps_per_s: float
    rpcs_per_s: float


@dataclass(frozen=True, slots=True)
class ReportFacts:
    slow_agents: Sequence[SlowAgents]
    operations: Sequence[OperationClaims]
    capacity: Mapping[str, float]  # arm -> steps/s
    drift: Drift | None
    short_blocks: Mapping[str, int]  # load -> steps of a block
    goodput: Mapping[str, float | None]
    """Arm -> values/s of a worker in lockstep runs, like the aggregated throughput of [SwitchML]."""
    bmv2: OnBmv2 | None


def facts(summary: Summary) -> ReportFacts:
    compiled = summary.agents.get(COMPILED_CODEC)
    checks = summary.capacity_checks
    return ReportFacts(
        slow_agents=[
            SlowAgents(codec, cost, compiled)
            for codec, cost in summary.agents.items()
            if codec != COMPILED_CODEC
        ],
        operations=[
            operations for load in summary.loads for operations in _operations_at_load(summary, load)
        ],
        capacity=capacity_by_arm(summary.capacity) if checks else {},
        drift=Drift(min_capacity(summary.capacity), list(_later_capacities(checks))) if checks else None,
        short_blocks={
            name: load.block_steps
            for name, load in summary.loads.items()
            if summary.ended_by is not None and load.block_steps < P99_STEPS
        },
        goodput={} if summary.vector is None else dict(_goodput(summary, summary.vector)),
        bmv2=_on_bmv2(summary) if summary.target == BMV2 else None,
    )


def _later_capacities(checks: Sequence[CapacityCheck]) -> Iterator[tuple[str, float]]:
    """Yield when capacities were checked, and the smallest arm's mean of the checks of that time."""
    for when, at_once in groupby(checks, key=lambda check: check.when):
        capacities = [check.capacity for check in at_once]
        means = {arm: fmean(each[arm] for each in capacities) for arm in capacities[0]}
        yield when, min_capacity(means)


def _on_bmv2(summary: Summary) -> OnBmv2:
    lead = summary.lead
    if lead is None or lead.reference is None or not summary.loads:
        return OnBmv2(None, None, loses=False)
    operation_claims = select_claims(answer(summary).claims, metrics_of_subject("answer", "operations"))
    tones = {claim.tone for claim in operation_claims}
    return OnBmv2(
        _carried(summary, lead.name),
        _carried(summary, lead.reference),
        loses="worse" in tones and "better" not in tones,
    )


def _carried(summary: Summary, arm: str) -> Carried | None:
    steps_per_s, measured = summary.capacity.get(arm), next(iter(summary.loads.values())).arms.get(arm)
    if not steps_per_s or measured is None or not measured.steps:
        return None
    return Carried(steps_per_s, steps_per_s * measured.rpcs_per_step)


def _operations_at_load(summary: Summary, load: str) -> Iterator[OperationClaims]:
    for baseline, arms in arms_by_reference(summary.loads[load].differences).items():
        arms_with_claims = [
            (arm.name, claims_of_arm)
            for arm in arms
            if not arm.is_repetition and (claims_of_arm := _claims_with_intervals(summary, load, arm.name))
        ]
        if arms_with_claims:
            yield OperationClaims(load, baseline, arms_with_claims)


def _claims_with_intervals(summary: Summary, load: str, arm: str) -> list[Claim]:
    operation_claims = select_claims(claims(summary, load, arm), metrics_of_subject("answer", "operations"))
    return [] if any(claim.verdict.lacks_interval for claim in operation_claims) else operation_claims


def _goodput(summary: Summary, vector_length: int) -> Iterator[tuple[str, float | None]]:
    load = next(iter(summary.loads.values()))
    for arm in summary.run_arms:
        push_us = load.arms[arm.name].op_latency_us["push"].mean
        yield arm.name, vector_length / push_us * 1e6 if push_us else None
