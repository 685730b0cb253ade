"""Decide which differences to claim, and derive the recommendation, by the rules of docs/intervals.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from analysis.disturbance import disturbed_blocks
from analysis.metrics import (
    CAPACITY,
    LOSS,
    METRICS,
    PS_CPU,
    Better,
    Metric,
    Subject,
    Tone,
    answer_metrics,
    metrics_of_subject,
    metrics_of_table,
)
from analysis.record import CapacityCheck
from analysis.statistics import ALPHA, Comparison, compare_paired, min_rounds
from analysis.summary import Summary
from analysis.verdict import Claim, Verdict
from foundation.designs.arms import arm as arm_of
from foundation.designs.arms import arms_in_answer, repetition_of
from foundation.designs.interface import Arm

Claims = Mapping[str, Claim]


def claims(summary: Summary, load: str, arm: str) -> dict[str, Claim]:
    load_summary = summary.loads[load]
    changes = load_summary.differences.get(arm, {})
    baseline = arm_of(arm).reference or ""
    repetition = repetition_of(baseline)
    null = (
        {}
        if repetition is None or repetition.name == arm
        else load_summary.differences.get(repetition.name, {})
    )
    disturbed = load_summary.invalidated_by.get(arm, {})
    return {
        metric.name: Claim(
            metric,
            changes[metric.name],
            null=null.get(metric.name),
            reference=baseline,
            disturbed=disturbed.get(metric.kind),
            # Of these metrics, only times are read from the logs, which may lack rows.
            dropped_rows=summary.dropped_rows if metric.kind == "time" else 0,
        )
        for metric in METRICS.values()
        if metric.name in changes and not changes[metric.name].is_from_zero_to_zero
    }


def claim_of_learning(summary: Summary, arm: str) -> Claim | None:
    comparison = summary.learning.get(arm)
    return None if comparison is None else Claim(LOSS, comparison)


def claim_of_capacity(summary: Summary, lead: Arm) -> Claim | None:
    """Return the claim from the checks at the end of a run; None if an interval needs more of them."""
    assert lead.reference is not None
    at_end = [check for check in summary.capacity_checks if check.when == "end"]
    both = [check for check in at_end if check.capacity.get(lead.name) and check.capacity.get(lead.reference)]
    if len(both) < min_rounds(ALPHA):
        return None
    change = _change_of_capacity(both, lead.name, lead.reference)
    assert change is not None
    repetition = repetition_of(lead.reference)
    contention = [
        check.contention[arm]
        for check in both
        for arm in (lead.name, lead.reference)
        if arm in check.contention
    ]
    disturbed = disturbed_blocks(contention)
    return Claim(
        CAPACITY,
        change,
        null=None if repetition is None else _change_of_capacity(both, repetition.name, lead.reference),
        reference=lead.reference,
        disturbed=disturbed if disturbed.are_too_many else None,
    )


def _change_of_capacity(checks: Sequence[CapacityCheck], arm: str, reference: str) -> Comparison | None:
    rates = [(check.capacity.get(arm), check.capacity[reference]) for check in checks]
    if not all(rate for rate, _ in rates):
        return None
    of_arm, of_reference = np.array(rates, np.float64).T
    return compare_paired(of_arm, of_reference)


def select_claims(claims_by_metric: Claims, metrics: Iterable[Metric]) -> list[Claim]:
    return [claims_by_metric[metric.name] for metric in metrics if metric.name in claims_by_metric]


def group_claims(claims_by_metric: Claims, subject: Subject) -> Iterator[tuple[Better, Tone, list[Claim]]]:
    mentioned_claims = select_claims(claims_by_metric, metrics_of_subject("answer", subject))
    for better in ("less", "more"):
        for tone in ("better", "worse"):
            group = [
                claim for claim in mentioned_claims if (claim.metric.better, claim.tone) == (better, tone)
            ]
            if group:
                yield better, tone, group


def groups_without_claim(claims_by_metric: Claims) -> list[list[Claim]]:
    claims_of_answer = select_claims(claims_by_metric, answer_metrics())
    return group_by_reason(
        claim
        for claim in claims_of_answer
        if not claim.sign and not (claim.metric is LOSS and claim.verdict is Verdict.SAME)
    )


def group_by_reason(unclaimed: Iterable[Claim]) -> list[list[Claim]]:
    groups: dict[tuple[object, ...], list[Claim]] = {}
    for claim in unclaimed:
        groups.setdefault(claim.reason, []).append(claim)
    return list(groups.values())


class Recommendation(str, Enum):
    NO_LEAD = "no lead"
    NOT_RUN = "not run"
    NO_ROUND = "no round"
    FEW_ROUNDS = "few rounds"
    YES = "yes"
    IF_SERVERS_LIMIT = "if servers limit"
    IF_SERVERS_COST = "if servers cost"
    FOR_LATENCY = "for latency"
    MIXED = "mixed"
    NO = "no"
    UNDECIDED = "undecided"
    COSTS_WITHHELD = "costs withheld"  # of a simulation whose costs claim nothing


def recommend(claims_by_metric: Claims, was_run: bool) -> Recommendation:
    if not claims_by_metric:
        return Recommendation.NO_ROUND if was_run else Recommendation.NOT_RUN
    if all(claim.verdict.lacks_interval for claim in claims_by_metric.values()):
        return Recommendation.FEW_ROUNDS
    servers_tone = tone_of(claims_by_metric, PS_CPU)
    tones = {tone_of(claims_by_metric, metric) for metric in metrics_of_subject("answer", "operations")}
    any_faster, any_slower = "better" in tones, "worse" in tones
    if servers_tone == "better":
        if any_slower:
            return Recommendation.IF_SERVERS_LIMIT
        return Recommendation.YES if any_faster else Recommendation.IF_SERVERS_COST
    if any_faster:
        return Recommendation.MIXED if any_slower or servers_tone else Recommendation.FOR_LATENCY
    return Recommendation.NO if any_slower or servers_tone else Recommendation.UNDECIDED


def tone_of(claims_by_metric: Claims, metric: Metric) -> Tone:
    return claims_by_metric[metric.name].tone if metric.name in claims_by_metric else ""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    load: str
    lead: Arm | None
    recommendation: Recommendation
    claims: Claims
    other_arms: Sequence[tuple[Arm, Claims]] = ()
    missing_null: Arm | None = None
    """Repetition of the baseline if it was not run, so that noise is unknown; else None."""


def answer(summary: Summary) -> RunAnswer:
    load, lead = next(iter(summary.loads)), summary.lead
    if lead is None:
        return RunAnswer(load, None, Recommendation.NO_LEAD, {})
    lead_claims, learning_claim = claims(summary, load, lead.name), claim_of_learning(summary, lead.name)
    null = repetition_of(lead.reference)
    # Simulated runs have no noise.
    lacks_null = (
        null is not None and not summary.is_simulated and null.name not in summary.loads[load].differences
    )
    return RunAnswer(
        load,
        lead,
        recommend(lead_claims, was_run=lead.name in summary.capacity),
        claims=lead_claims | ({} if learning_claim is None else {LOSS.name: learning_claim}),
        other_arms=[
            (arm, _operation_claims(summary, load, arm))
            for arm in arms_in_answer(lead.design)
            if not arm.is_lead
        ],
        missing_null=null if lacks_null else None,
    )


def _operation_claims(summary: Summary, load: str, arm: Arm) -> Claims:
    claims_of_arm = claims(summary, load, arm.name)
    return {name: claim for name, claim in claims_of_arm.items() if claim.metric.subject == "operations"}


# (metric, value of the baseline, (arm, change, tone) for each other arm)
MetricRow = tuple[Metric, float, list[tuple[Arm, Comparison | None, Tone]]]


def metric_rows(summary: Summary, load: str, arms: Sequence[Arm]) -> Iterator[MetricRow]:
    if len(summary.run_arms) == 1:
        yield from _baseline_rows(summary, load)
    changes = [summary.loads[load].differences[arm.name] for arm in arms]
    claims_of_arms = [claims(summary, load, arm.name) for arm in arms]
    for metric in metrics_of_table("differences"):
        comparisons = [changes_of_arm.get(metric.name) for changes_of_arm in changes]
        # The difference of a repetition is noise, neither better nor worse.
        tones: list[Tone] = [
            "" if arm.is_repetition else tone_of(claims_of_arm, metric)
            for arm, claims_of_arm in zip(arms, claims_of_arms, strict=True)
        ]
        known_comparisons = [comparison for comparison in comparisons if comparison is not None]
        if known_comparisons:
            yield metric, known_comparisons[0].reference, list(zip(arms, comparisons, tones, strict=True))


def _baseline_rows(summary: Summary, load: str) -> Iterator[MetricRow]:
    values = summary.loads[load].arms[summary.reference.name]
    for metric in metrics_of_table("differences"):
        # Leave out values of 0: pulls from a worker's own model, and idle servers.
        if metric.summary_path is not None and (value := values.value_of(metric)):
            yield metric, value, []
