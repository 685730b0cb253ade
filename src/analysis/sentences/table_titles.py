"""Titles and notes of a report's tables, and where the switch loses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analysis.sentences.differences import confidence, listed, not_claimed, say
from analysis.statistics import MIN_ROUNDS
from analysis.summary import LoadSummary, Summary
from analysis.verdict import Claim
from analysis.wording import Sentence, difference, in_sentences
from foundation.logs.columns import load_title
from foundation.text import capital, pluralize

NO_ROUND = "No round is complete."
_NO_INTERVALS = f"No intervals: they need {MIN_ROUNDS} complete rounds; from fewer they would be too narrow."
DURABILITY_NOTE = (
    "One commit makes a burst of RPCs durable before any of them is answered; the wait is part of their "
    "PS_proc. RPCs that arrive meanwhile wait as long in PS_queue. To see what durability costs a pull or a "
    "push, compare this run with one without it: hotline compare."
)


def table_title(summary: Summary, load: str, baseline: str) -> str:
    percent_of = f"; in % of {baseline}" if len(summary.run_arms) > 1 else ""
    return f"{_measured_at(summary, load, ' offered')}{percent_of}"


def terminal_title(summary: Summary, load: str, baseline: str) -> str:
    differences = ""
    if len(summary.run_arms) > 1:
        differences = f"; differences to {baseline} in % [{confidence(summary, load)} interval]"
    return f"{_measured_at(summary, load)}{differences}"


def _measured_at(summary: Summary, name: str, offered: str = "") -> str:
    load = summary.loads[name]
    rate = "" if load.offered_rate is None else f"{load.offered_rate:,.1f} steps/s{offered}, "
    return f"{capital(load_title(name))}: {rate}{pluralize(load.rounds, 'round')}"


def table_notes(
    load: LoadSummary, unclaimed: Iterable[tuple[Claim, Mapping[str, Sequence[str]]]]
) -> list[str]:
    """Return why rows of a load's table have no intervals, or are not claimed: (claim, arm -> labels)."""
    if load.lacks_intervals:
        return [_NO_INTERVALS]
    return [
        f"{capital(not_claimed(claim.verdict, claim))}: "
        f"{'; '.join(f'{arm} {_joined(labels)}' for arm, labels in labels_by_arm.items())}."
        for claim, labels_by_arm in unclaimed
    ]


def _joined(labels: Sequence[str]) -> str:
    return ", ".join(labels)


def worse(load: str, arm: str, claims: Iterable[Claim]) -> Sentence:
    amounts = listed(
        (f"{in_sentences(claim.metric.label)} ", difference(claim.change, claim.tone)) for claim in claims
    )
    return say(f"Load {load}, {arm}: ", *amounts, ".")


def nothing_worse(summary: Summary) -> str:
    if all(load.lacks_intervals for load in summary.loads.values()):
        return f"These rounds cannot tell. {_NO_INTERVALS}"
    return "Nowhere, as far as these rounds show."


def durability_title(summary: Summary) -> str:
    return f"Commits of all parameter servers, with journal_sync {summary.durable}"
