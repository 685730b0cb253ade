"""Test the claims and recommendation of an answer for differences; `test_sentences.py` has the words."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.caveats import facts
from analysis.claims import (
    Claims,
    Recommendation,
    RunAnswer,
    answer,
    group_claims,
    groups_without_claim,
)
from analysis.disturbed_blocks import DisturbedBlocks
from analysis.metrics import Subject, Tone, answer_metrics
from analysis.report import measured_answer
from analysis.sentences.answers import _sound_updates
from analysis.statistics import Comparison
from analysis.summary import Summary, Updates
from analysis.verdict import Verdict
from tests.harness.summaries import a_load, a_summary, of_ratio

LESS, MORE = of_ratio(-0.2, -0.25, -0.15), of_ratio(0.2, 0.15, 0.25)
OPEN = of_ratio(0.1, -0.011, 0.23)
QUIET = of_ratio(0.0, -0.01, 0.01)
NOT_KNOWN = of_ratio(0.1)
PULL, PUSH, CPU, PACKETS = "pull_mean", "push_mean", "ps_cpu_us_per_step", "ps_packets_per_step"
STOLEN = DisturbedBlocks(blocks=20, disturbed=5, reasons={"steal": 5})


def summary(
    hot: dict[str, Comparison], proxy: dict[str, Comparison] | None = None, **changes: Any
) -> Summary:
    of_load: dict[str, Any] = {
        "differences": {
            "repeat": {metric.name: QUIET for metric in answer_metrics()},
            "offload": hot,
            **({} if proxy is None else {"proxy": proxy}),
        }
    }
    source_of_run = {name: changes.pop(name) for name in list(changes) if name in Summary.model_fields}
    return a_summary({"0.5": a_load(**{**of_load, **changes})}, **{"cpus": 2, **source_of_run})


def spoken(found: Claims) -> tuple[list[tuple[Subject, Tone, list[str]]], list[list[str]]]:
    """Return the claims, and the metrics without a claim, in the order of sentences."""
    subjects: tuple[Subject, ...] = ("servers", "workers", "operations")
    made = [
        (subject, tone, [claim.metric.name for claim in claims])
        for subject in subjects
        for _, tone, claims in group_claims(found, subject)
    ]
    return made, [[claim.metric.name for claim in group] for group in groups_without_claim(found)]


def verdicts(found: RunAnswer) -> dict[str, Verdict]:
    return {name: claim.verdict for name, claim in found.claims.items()}


def test_counts_and_cpu_come_first_then_operations_then_unclaimed_metrics() -> None:
    hot = {PULL: MORE, PUSH: OPEN, CPU: LESS, PACKETS: LESS, "worker_cpu_without_switch_us_per_step": OPEN}
    hot |= dict.fromkeys(("ps_bytes_per_step", "rpcs_per_step", "worker_cpu_us_per_step"), MORE)
    proxy = {PULL: OPEN, PUSH: LESS, CPU: LESS}
    found = answer(summary(hot, proxy, learning={"offload": of_ratio(0.001, -0.002, 0.004)}))
    assert spoken(found.claims) == (
        [
            ("servers", "better", [PACKETS, CPU]),
            ("servers", "worse", ["ps_bytes_per_step"]),
            ("workers", "worse", ["rpcs_per_step", "worker_cpu_us_per_step"]),
            ("operations", "worse", [PULL]),
        ],
        [["worker_cpu_without_switch_us_per_step", PUSH]],
    )
    assert found.claims["loss"].verdict is Verdict.SAME
    # Of other arms the operations alone.
    [(arm, claims)] = found.other_arms
    assert (arm.name, spoken(claims)) == ("proxy", ([("operations", "better", [PUSH])], [[PULL]]))


def test_only_claimed_differences_are_coloured() -> None:
    found = measured_answer(summary({PULL: MORE, PUSH: OPEN, CPU: LESS}))
    tones = [(span.text, span.tone) for sentence in found.sentences for span in sentence if span.tone]
    assert tones == [("-20 % [-25, -15]", "better"), ("+20 % [+15, +25]", "worse")]
    assert any("+10 % [-1.1, +23]" in text for text in found.texts())


def test_a_difference_within_noise_is_not_claimed() -> None:
    found = summary({PULL: of_ratio(0.04, 0.01, 0.07)})
    load, null = found.loads["0.5"], of_ratio(0.0, -0.06, 0.05)
    wide = {**load.differences, "repeat": {PULL: null}}
    changed = found.model_copy(update={"loads": {"0.5": load.model_copy(update={"differences": wide})}})
    claim = answer(changed).claims[PULL]
    assert (claim.verdict, claim.is_noise, claim.null) == (Verdict.AS_NULL, True, null)


def test_disturbed_blocks_take_their_own_claims_and_leave_the_rest() -> None:
    invalid = {"offload": {"time": STOLEN}}
    found = answer(summary({PULL: MORE, PUSH: LESS, CPU: LESS}, invalidated_by=invalid))
    assert verdicts(found) == {PULL: Verdict.DISTURBED, PUSH: Verdict.DISTURBED, CPU: Verdict.LESS}
    assert spoken(found.claims) == ([("servers", "better", [CPU])], [[PULL, PUSH]])
    assert found.claims[PULL].disturbed == STOLEN
    assert found.recommendation is Recommendation.IF_SERVERS_COST


def test_an_insignificant_difference_of_disturbed_blocks_is_insignificant_and_not_invalid() -> None:
    found = answer(summary({PULL: OPEN, PUSH: LESS}, invalidated_by={"offload": {"time": STOLEN}}))
    assert verdicts(found) == {PULL: Verdict.CONTAINS_ZERO, PUSH: Verdict.DISTURBED}
    # They have different reasons.
    assert spoken(found.claims) == ([], [[PULL], [PUSH]])


def test_logs_that_lack_rows_take_times_only() -> None:
    found = answer(summary({PULL: MORE, CPU: LESS}, dropped_rows=9))
    assert verdicts(found) == {PULL: Verdict.DROPPED_ROWS, CPU: Verdict.LESS}
    assert found.claims[PULL].dropped_rows == 9


@pytest.mark.parametrize(
    ("found", "verdict", "tone"),
    [
        ((-0.004, -0.009, 0.002), Verdict.SAME, ""),
        ((0.03, 0.02, 0.04), Verdict.MORE, "worse"),
        ((-0.03, -0.04, -0.02), Verdict.LESS, "better"),
        # One of two default runs claimed it; in the other *repeat* differed from *baseline* by 3.8 %.
        ((-0.016, -0.06, 0.03), Verdict.CONTAINS_ZERO, ""),
        ((-0.016,), Verdict.UNREPEATED, ""),
    ],
)
def test_a_difference_of_losses_is_claimed_beyond_its_tolerance(
    found: tuple[float, ...], verdict: Verdict, tone: str
) -> None:
    claims = answer(summary({}, learning={"offload": of_ratio(*found)})).claims
    assert (claims["loss"].verdict, claims["loss"].tone) == (verdict, tone)
    open_ = verdict in (Verdict.CONTAINS_ZERO, Verdict.UNREPEATED)
    assert spoken(claims)[1] == ([["loss"]] if open_ else [])


def test_few_rounds_bear_no_claim() -> None:
    unknown = dict.fromkeys((PULL, PUSH, CPU), NOT_KNOWN)
    found = answer(summary(unknown, learning={"offload": NOT_KNOWN}))
    assert found.recommendation is Recommendation.FEW_ROUNDS
    assert set(verdicts(found).values()) == {Verdict.FEW_ROUNDS, Verdict.UNREPEATED}
    # That of the loss lacks its interval for another reason.
    assert spoken(found.claims) == ([], [[CPU, PULL, PUSH], ["loss"]])


def test_a_metric_without_an_interval_keeps_no_other_metric_from_being_claimed() -> None:
    found = answer(summary({PULL: LESS, PUSH: LESS, CPU: NOT_KNOWN}))
    assert found.recommendation is Recommendation.FOR_LATENCY


@pytest.mark.parametrize("open_", [PULL, PUSH])
def test_operations_are_no_fact_if_the_pull_or_the_push_has_no_interval(open_: str) -> None:
    known = summary({PULL: LESS, PUSH: OPEN})
    [operations] = facts(known).operations
    [(arm, claims)] = operations.arms
    assert (operations.load, operations.reference, arm) == ("0.5", "baseline", "offload")
    assert [claim.sign for claim in claims] == [-1, 0]
    other = summary({PULL: LESS, PUSH: LESS, open_: NOT_KNOWN})
    assert facts(other).operations == []
    # The report says that there are no intervals if no difference has one.
    assert not other.loads["0.5"].lacks_intervals and not a_load().lacks_intervals
    assert a_load(differences={"offload": {PULL: NOT_KNOWN, PUSH: NOT_KNOWN}}).lacks_intervals


@pytest.mark.parametrize(("first", "other", "sign"), [(LESS, OPEN, -1), (OPEN, LESS, 0)])
def test_an_answer_is_of_the_first_load(first: Comparison, other: Comparison, sign: int) -> None:
    of_loads = {
        name: a_load(differences={"offload": {CPU: of}}) for name, of in (("0.5", first), ("0.8", other))
    }
    found = answer(a_summary(of_loads))
    assert (found.load, found.claims[CPU].sign) == ("0.5", sign)


def test_without_repeat_the_missing_null_is_reported() -> None:
    bare = a_load(differences={"offload": {CPU: LESS}})
    missing = answer(a_summary({"0.5": bare})).missing_null
    assert missing is not None and missing.name == "repeat"
    # In virtual time it would be none.
    assert answer(a_summary({"0.5": bare}, virtual_s=1.0)).missing_null is None
    assert answer(summary({CPU: LESS})).missing_null is None


@pytest.mark.parametrize(
    ("arms", "recommendation"),
    [("baseline offload", Recommendation.NO_ROUND), ("baseline offload-proxy", Recommendation.NOT_RUN)],
)
def test_an_answer_without_rounds_of_offload_says_whether_the_arm_was_run(
    arms: str, recommendation: Recommendation
) -> None:
    found = answer(a_summary({"0.5": a_load()}, capacity=dict.fromkeys(arms.split(), 200.0)))
    assert (found.recommendation, found.claims) == (recommendation, {})


@pytest.mark.parametrize(
    ("servers", "pull", "push", "recommendation"),
    [
        (LESS, LESS, LESS, Recommendation.YES),
        (LESS, LESS, OPEN, Recommendation.YES),
        (LESS, MORE, MORE, Recommendation.IF_SERVERS_LIMIT),
        (LESS, OPEN, MORE, Recommendation.IF_SERVERS_LIMIT),
        (LESS, LESS, MORE, Recommendation.IF_SERVERS_LIMIT),
        (LESS, OPEN, OPEN, Recommendation.IF_SERVERS_COST),
        (OPEN, LESS, OPEN, Recommendation.FOR_LATENCY),
        (OPEN, OPEN, OPEN, Recommendation.UNDECIDED),
        (OPEN, MORE, MORE, Recommendation.NO),
        (OPEN, LESS, MORE, Recommendation.MIXED),
        (OPEN, OPEN, MORE, Recommendation.NO),
        (MORE, OPEN, OPEN, Recommendation.NO),
        (MORE, LESS, LESS, Recommendation.MIXED),
        (MORE, LESS, OPEN, Recommendation.MIXED),
        (MORE, LESS, MORE, Recommendation.MIXED),
        (MORE, MORE, MORE, Recommendation.NO),
    ],
)
def test_the_recommendation_follows_from_the_claims(
    servers: Comparison, pull: Comparison, push: Comparison, recommendation: Recommendation
) -> None:
    found = summary({CPU: servers, PULL: pull, PUSH: push})
    assert found.is_sound and answer(found).recommendation is recommendation


@pytest.mark.parametrize(
    "changes",
    [
        {"overflows": 5},
        {"changed_arms": ["offload", "offload-proxy"]},
        {"updates": {"sent": 9, "applied": 5, "lost": 4, "unknown": 0, "mismatched_keys": 0}},
        {"updates": {"sent": 9, "applied": 9, "lost": 0, "unknown": 0, "mismatched_keys": 2}},
    ],
)
def test_a_fault_that_makes_a_run_unsound_is_the_headline(changes: dict[str, Any]) -> None:
    found = summary({CPU: LESS}, **changes)
    broken = measured_answer(found)
    assert not found.is_sound and not broken.is_trusted
    assert broken.headline != measured_answer(summary({CPU: LESS})).headline


def test_the_first_screen_counts_the_values_of_dead_workers_that_may_not_be_added() -> None:
    updates = Updates(sent=1_000, applied=900, lost=0, unknown=100, mismatched_keys=0)
    found = _sound_updates(a_summary({}, updates=updates.model_dump()))
    assert found == (
        "900 values were pushed and added: none lost, none doubled, no overflow. Each of 100 more, of dead "
        "workers, was added once or not at all."
    )
