"""Differences in sentences: those that are claimed, and those that are not, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from analysis.claims import Claims, group_claims, groups_without_claim
from analysis.disturbed_blocks import DisturbedBlocks
from analysis.forest import Effect
from analysis.metrics import LOSS, Better, Metric, Subject, Tone
from analysis.statistics import MIN_ROUNDS, Comparison
from analysis.summary import Summary
from analysis.verdict import Claim, Misfit, Verdict
from analysis.wording import Sentence, Span, change_with_interval, difference, interval, percent, plain
from foundation.text import capital, pluralize

DISTURBANCE_WORDS = {
    "steal": "the hypervisor used the CPU",
    "others' CPU": "other programs used the CPU",
    "clock": "the machine's clock was set",
    "restart": "a server or the switch restarted",
    "workers": "a worker died or joined",
    "pressure": "processes waited for a CPU",
    "run queue": "an agent waited for a CPU",
    "retransmissions": "unusually many frames were sent again",
    "lateness": "the load generator was late",
}
"""Disturbance -> what happened, as a clause that goes on with "in N of M blocks"."""
_REASONS: Mapping[Verdict, str] = {
    Verdict.SAME: "unchanged",
    Verdict.CONTAINS_ZERO: "the interval contains 0",
    Verdict.AS_NULL: "the baseline differs from its own repeat as much",
    Verdict.FEW_ROUNDS: f"there are fewer than {MIN_ROUNDS} complete rounds",
    Verdict.UNREPEATED: "nothing repeats the training",
    Verdict.FEW_CAPACITIES: "it was measured too few times for an interval",
    Verdict.UNCHECKED: "no measurement checks the simulation of it",
    Verdict.NOT_MEASURED: "there is no value of it",
}


def say(*parts: str | Span) -> Sentence:
    """Return a sentence of texts and coloured spans; neighbouring texts become one span."""
    spans: list[Span] = []
    for part in parts:
        span = Span(text=part) if isinstance(part, str) else part
        if spans and spans[-1].tone == span.tone == "":
            spans[-1] = Span(text=spans[-1].text + span.text)
        elif span.text:
            spans.append(span)
    return tuple(spans)


def listed(items: Iterable[Sequence[str | Span]], separator: str = ", ") -> Iterator[str | Span]:
    for number, parts in enumerate(items):
        if number:
            yield separator
        yield from parts


def verb(subject: Subject, better: Better, tone: Tone) -> str:
    is_better = tone == "better"
    if subject == "operations":
        return "complete sooner" if is_better else "take longer"
    if better == "less":
        return "save" if is_better else "pay"
    return "gain" if is_better else "lose"


def loss_noun(summary: Summary) -> str:
    if summary.reports is None:
        return "mean log loss"
    return f"mean loss over the first {summary.reports:,} reports of every worker"


def noun(metric: Metric, summary: Summary) -> str:
    if metric.subject == "operations":
        return metric.noun
    return f"the {metric.subject}' {metric.noun}" if metric.subject else f"the {loss_noun(summary)}"


def changes(claims: Claims, summary: Summary, where: str = " here") -> Iterator[Sentence]:
    """Yield sentences about all claims of an arm.

    `where` follows "unchanged" and "no significant difference".
    """
    subjects: tuple[Subject, ...] = ("servers", "workers")
    for subject in subjects:
        for better, tone, alike in group_claims(claims, subject):
            amounts = ((_change(claim), f" {claim.metric.noun}") for claim in alike)
            yield say(f"The {subject} {verb(subject, better, tone)}: ", *listed(amounts), ".")
    yield from operations(claims)
    if LOSS.name in claims:
        yield from _learning(claims[LOSS.name], summary)
    yield from not_claimed_changes(claims, summary, where=where)


def _change(claim: Claim) -> Span:
    return difference(claim.change, claim.tone)


def operations(claims: Claims, begin: str = "") -> Iterator[Sentence]:
    for better, tone, alike in group_claims(claims, "operations"):
        nouns = " and ".join(claim.metric.noun for claim in alike)
        amounts = listed([[_change(claim)] for claim in alike], " and ")
        yield say(f"{capital(begin + nouns)} {verb('operations', better, tone)}: ", *amounts, ".")


def _learning(claim: Claim, summary: Summary) -> Iterator[Sentence]:
    if claim.tone or claim.verdict is Verdict.SAME:
        same = f"the same, within {claim.metric.tolerance * 100:.0f} %"
        learns = {"better": "more", "worse": "less", "": same}[claim.tone]
        yield say(f"The model learns {learns}: ", _change(claim), f" {loss_noun(summary)}.")


def not_claimed_changes(
    claims: Claims, summary: Summary, begin: str = "", where: str = " here"
) -> Iterator[Sentence]:
    for alike in groups_without_claim(claims):
        first = alike[0]
        amounts = ", ".join(f"{noun(claim.metric, summary)} {_with_noise(claim)}" for claim in alike)
        yield plain(f"{capital(begin + not_claimed(first.verdict, first, where))}: {amounts}.")


def _with_noise(claim: Claim) -> str:
    text = change_with_interval(claim.change)
    if claim.verdict is Verdict.AS_NULL and claim.null is not None:
        return f"{text} ({claim.reference} from itself {interval(claim.null)})"
    return text


def not_claimed(verdict: Verdict, claim: Claim | None, where: str = "") -> str:
    """Return what is said of a difference that is not claimed, with the reason; a capacity has no claim."""
    text = outcome(verdict)
    if verdict is Verdict.SAME or verdict.is_not_significant:
        text += where
    is_explained = verdict in (Verdict.SAME, Verdict.NOT_MEASURED)
    return text if is_explained else f"{text}, because {reason(verdict, claim)}"


def outcome(verdict: Verdict) -> str:
    if verdict is Verdict.SAME:
        return "unchanged"
    if verdict.is_not_significant:
        return "no significant difference"
    if verdict.lacks_interval:
        return "without an interval"
    return "not measured" if verdict is Verdict.NOT_MEASURED else "not compared"


def reason(verdict: Verdict, claim: Claim | None) -> str:
    """Return the reason not to claim a difference, as a clause."""
    if verdict is Verdict.DISTURBED and claim is not None and claim.disturbed is not None:
        return disturbances(claim.disturbed)
    if verdict is Verdict.MISFIT and claim is not None and claim.misfit is not None:
        return misfit(claim.misfit)
    if verdict is Verdict.DROPPED_ROWS and claim is not None:
        return f"the disk was too slow for {pluralize(claim.dropped_rows, 'row')} of the logs"
    return _REASONS[verdict]


def disturbances(disturbed: DisturbedBlocks) -> str:
    """Return the disturbances of blocks, the most frequent first."""
    blocks = pluralize(disturbed.blocks, disturbed.kind)
    return ", ".join(
        f"{DISTURBANCE_WORDS.get(name, name)} in {number}{'' if index else f' of {blocks}'}"
        for index, (name, number) in enumerate(disturbed.reasons.items())
    )


def misfit(found: Misfit) -> str:
    """Return how far a simulation of the run is from the run, as a clause."""
    return (
        f"the simulation of this run has {found.simulated:,.0f} {found.unit} for {found.what} of arm "
        f"{found.arm}, and {found.measured:,.0f} were measured"
    )


def row_reasons(groups: Iterable[tuple[str, Sequence[str], Effect]]) -> list[str]:
    """Return the rows of the first screen that are not claimed: (column, titles of rows, an effect)."""
    return [
        f"{f'{column}, ' if column else ''}{', '.join(titles)}: {row_reason(effect)}"
        for column, titles, effect in groups
    ]


def row_reason(effect: Effect) -> str:
    return reason(effect.verdict, effect.claim)


def cluster_changes(
    subject: Subject, better: Better, tones: Set[Tone], compared: Iterable[tuple[Metric, Comparison]]
) -> str:
    """Return the changes of a simulated cluster, for metrics of a subject with the same better direction."""
    is_of_operations = subject == "operations"
    if len(tones) == 1:
        [tone] = tones
        what = verb(subject, better, tone)
    else:
        what = "gain and lose" if tones else "show no significant change"
    amounts = ", ".join(
        f"{change_with_interval(change)}{' for' if is_of_operations else ''} {metric.noun}"
        for metric, change in compared
    )
    return f"{capital(subject) if is_of_operations else f'The {subject}'} {what}: {amounts}."


def confidence(summary: Summary, load: str | None = None) -> str:
    """Return the confidence of the intervals of differences at a load; without a load, at the first."""
    alpha = summary.alpha if load is None else summary.loads[load].alpha
    return f"{(1 - alpha) * 100:g} %"


def amount(claim: Claim, direction: str) -> str:
    """Return the size of a claimed change and its direction, or the values from a baseline of 0."""
    ratio = claim.change.ratio
    return change_with_interval(claim.change) if ratio is None else f"{percent(ratio)} {direction}"
