"""Decide whether a run has measured enough, at fixed numbers of rounds that share the error rate of 5 %.

A run that stopped as soon as some difference is significant would claim false differences far too often. So
it looks at its intervals after 12, 18 and 27 rounds only, at error rates that add up to `ALPHA` (the
Bonferroni bound of a group-sequential design: Jennison and Turnbull, "Group Sequential Methods", 2000). It
may stop at any of these looks for any reason, also because further rounds would decide nothing; an interval
is wrong at some look with a probability of at most 5 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Literal, NamedTuple

from analysis.metrics import answer_metrics
from analysis.statistics import Comparison
from analysis.verdict import Claim
from foundation.designs.arms import arm as arm_of
from foundation.designs.arms import repetition_of


class Look(NamedTuple):
    rounds: int
    alpha: float


LOOKS = (Look(rounds=12, alpha=0.02), Look(rounds=18, alpha=0.01), Look(rounds=27, alpha=0.02))
DEFAULT_GOAL = 0.03
"""Half width of an interval, as a share of the baseline, that decides a metric without a goal of its own."""

State = Literal["decided", "futile", "open"]


def reason_to_stop(
    differences: Mapping[str, Mapping[str, Comparison]], arm: str, rounds: int
) -> Literal["decided", "futility"] | None:
    states = [state_of(claim, rounds) for claim in claims_of_answer(differences, arm)]
    if not states or "open" in states:
        return None
    return "futility" if "futile" in states else "decided"


def claims_of_answer(differences: Mapping[str, Mapping[str, Comparison]], arm: str) -> Iterator[Claim]:
    repetition = repetition_of(arm_of(arm).reference)
    null = {} if repetition is None else differences.get(repetition.name, {})
    for metric in answer_metrics():
        comparison = differences.get(arm, {}).get(metric.name)
        if comparison is not None and comparison.ratio is not None:
            yield Claim(metric, comparison, null.get(metric.name))


def state_of(claim: Claim, rounds: int) -> State:
    # A claim is futile if it would be undecided at the last look, too, with the same estimate and intervals
    # narrowed by the square root of the ratio of rounds.
    half_width, goal = claim.change.half_width, claim.metric.goal or DEFAULT_GOAL
    if half_width is None:
        return "open"
    if claim.sign or half_width <= goal:
        return "decided"
    shrinkage = sqrt(rounds / LOOKS[-1].rounds)
    assert claim.change.ratio is not None
    can_be_claimed = abs(claim.change.ratio) > shrinkage * max(half_width, claim.max_null_change)
    return "open" if can_be_claimed or shrinkage * half_width <= goal else "futile"
