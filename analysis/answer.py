"""The answer that a run gives: what offload saves and costs, claim by claim, and whether to do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from analysis.claims import Claim, claim_of_learning, claims
from analysis.metrics import LOSS, PS_CPU, VERBS, Whose, spoken_in
from analysis.reported import ENOUGH
from analysis.statistics import MIN_ROUNDS
from analysis.summary import Summary
from analysis.vectors import of_vectors
from analysis.wording import Sentence, Span, Tone, difference, interval, plain, text_of
from foundation.designs.arms import repetition_of, told
from foundation.logs.columns import at_load
from foundation.words import counted


class Answer(BaseModel):
    """What a reader takes home; of one run there may be several, one behind the other."""

    model_config = ConfigDict(frozen=True)

    title: str
    """Where and of what the sentences are."""
    headline: str
    """Whether to do it; or, where everything is broken, why nothing here is to be trusted."""
    is_trusted: bool
    sentences: tuple[Sentence, ...]

    def texts(self) -> list[str]:
        """The sentences without colours."""
        return [text_of(each) for each in self.sentences]


def answer(summary: Summary) -> Answer:
    """Of a run at its first load: the arm that its design is judged by, and a word of others."""
    broken = list(_breaks_everything(summary))
    doubt = f"Not to be trusted, because {'; '.join(broken)}." if broken else ""
    load, lead = next(iter(summary.loads)), summary.lead
    if lead is None:
        told_of = of_vectors(summary)
        alone = "No recommendation: this design has no arm that is meant to save anything."
        return Answer(
            title=f"{_where(summary)}: design {summary.baseline.design} {at_load(load)}",
            headline=doubt or next(told_of, alone),
            is_trusted=not broken,
            sentences=tuple(map(plain, told_of)),
        )
    found, learnt = claims(summary, load, lead.name), claim_of_learning(summary, lead.name)
    said = list(sentences(found | ({} if learnt is None else {LOSS.name: learnt})))
    if summary.reports is not None and summary.reports < ENOUGH:
        said.append(
            plain(
                f"Too early to say whether the model learns the same: all arms have "
                f"{counted(summary.reports, 'report')} of every worker, and it takes {ENOUGH}. Report more "
                "often, or give more ROUNDS."
            )
        )
    for arm in told(lead.design):
        if arm.told:
            said += _of_another(claims(summary, load, arm.name), arm.told)
    null = repetition_of(lead.baseline)
    if said and null and summary.virtual_s is None and null.name not in summary.loads[load].differences:
        said.append(
            plain(f"Arm {null.name} was not run, so noise was not measured: the intervals alone decide.")
        )
    return Answer(
        title=f"{_where(summary)}: arm {lead.name} against {lead.baseline} {at_load(load)}, in % of "
        f"{lead.baseline} [95 % interval]",
        headline=doubt or recommendation(found, summary, lead.name),
        is_trusted=not broken,
        sentences=tuple(said),
    )


def _where(summary: Summary) -> str:
    if summary.virtual_s is not None:
        return "In virtual time"
    here = "On this machine" if summary.cpus is None else f"On this machine ({counted(summary.cpus, 'CPU')})"
    program = summary.program_share
    shares = program is not None and program.workers > 0
    return f"{here}, where the switch shares the workers' cores" if shares else here


def _breaks_everything(summary: Summary) -> Iterator[str]:
    """What no number of the run survives."""
    updates = summary.updates
    if updates.lost or updates.mismatched_keys:
        yield f"{updates.lost:,} updates were lost and {updates.mismatched_keys:,} keys differ"
    if summary.overflows:
        yield f"{summary.overflows:,} additions at the switch overflowed"
    if summary.changed_arms:
        yield f"somebody changed {', '.join(summary.changed_arms)} during the run"


Claims = Mapping[str, Claim]
"""By metric."""


def nouns() -> dict[str, str]:
    """Metrics of which the answer says whether an arm differs in them, as it calls them."""
    spoken = [metric for whose in VERBS for metric in spoken_in("answer", whose)]
    return {metric.name: metric.alone for metric in spoken} | {LOSS.name: f"the {LOSS.label}"}


def sentences(found: Claims, where: str = " here") -> Iterator[Sentence]:
    """Of an arm: what is claimed, counts and CPU first; then what is not, and why.

    `where` is said of what does not differ measurably.
    """
    for whose in ("servers", "workers"):
        for verb, of_verb in _claimed(found, whose):
            parts = [(_number(claim), Span(text=f" {claim.metric.behind}")) for claim in of_verb]
            yield _sentence(f"The {whose} {verb}: ", parts)
    yield from _of_operations(found)
    if LOSS.name in found:
        yield from _of_learning(found[LOSS.name])
    yield from _unclaimed(found, where=where)


def _claimed(found: Claims, whose: Whose) -> Iterator[tuple[str, list[Claim]]]:
    """What is claimed of whose metrics, by verb."""
    spoken = [found[metric.name] for metric in spoken_in("answer", whose) if metric.name in found]
    for (better, tone), verb in VERBS[whose].items():
        of_verb = [claim for claim in spoken if (claim.metric.better, claim.tone) == (better, tone)]
        if of_verb:
            yield verb, of_verb


def _of_operations(found: Claims, begin: str = "") -> Iterator[Sentence]:
    for verb, of_verb in _claimed(found, "operations"):
        told = f"{begin}{' and '.join(claim.metric.alone for claim in of_verb)} {verb}: "
        yield _sentence(told[0].upper() + told[1:], [(_number(claim),) for claim in of_verb], " and ")


def _of_learning(claim: Claim) -> Iterator[Sentence]:
    begin = {"better": "The model learns more: ", "worse": "The model learns less: "}
    if claim.is_same:
        begin[""] = f"The model learns the same, within {100 * claim.metric.tolerance:.0f} %: "
    if claim.tone in begin:
        yield _sentence(begin[claim.tone], [(_number(claim), Span(text=f" {claim.metric.label}"))])


def _of_another(found: Claims, begin: str) -> Iterator[Sentence]:
    """Of another arm, its operations alone."""
    of_operations = {name: claim for name, claim in found.items() if claim.metric.whose == "operations"}
    yield from _of_operations(of_operations, begin)
    yield from _unclaimed(of_operations, begin)


def _unclaimed(found: Claims, begin: str = "", where: str = " here") -> Iterator[Sentence]:
    """One sentence for each reason that there is."""
    by_reason: dict[str, list[Sequence[Span]]] = {}
    for name, usual in nouns().items():
        if name in found and not found[name].sign and not _says_same(found[name]):
            noun = f"the {found[name].metric.label}" if name == LOSS.name else usual
            by_reason.setdefault(_why(found[name], where), []).append(_open(found[name], noun))
    for reason, parts in by_reason.items():
        told = f"{begin}{reason}: "
        yield _sentence(told[0].upper() + told[1:], parts)


def _says_same(claim: Claim) -> bool:
    return claim.metric.name == LOSS.name and claim.is_same


def _why(claim: Claim, where: str) -> str:
    if claim.is_withheld:
        return f"not compared, because {claim.hindrance}"
    if claim.is_same:
        return f"unchanged{where}"
    if claim.found.ratio_low is not None:
        return f"no measurable difference{where}"
    return (
        "without an interval, because nothing repeats the training"
        if claim.metric.name == LOSS.name
        else f"without an interval, which needs {MIN_ROUNDS} complete rounds"
    )


def _open(claim: Claim, noun: str) -> Sequence[Span]:
    """Noun first: it is nobody's saving and nobody's cost."""
    spans = [Span(text=f"{noun} "), difference(claim.found)]
    if claim.found.sign and claim.is_noise and claim.null is not None:
        spans.append(Span(text=f" ({claim.baseline} from itself {interval(claim.null)})"))
    return spans


def _number(claim: Claim) -> Span:
    return difference(claim.found, claim.tone)


def _sentence(begin: str, parts: Iterable[Sequence[Span]], between: str = ", ") -> Sentence:
    spans = [Span(text=begin)]
    for place, part in enumerate(parts):
        spans += [Span(text=between if place else ""), *part]
    return tuple(span for span in (*spans, Span(text=".")) if span.text)


def _tone(claim: Claim | None) -> Tone:
    return "" if claim is None else claim.tone


def recommendation(found: Claims, summary: Summary, arm: str) -> str:
    """Whether to do it, by what is claimed of an arm."""
    if not found:
        was_run = arm in summary.capacity
        why = "has no complete round" if was_run else "was not run; the table compares the others"
        return f"No recommendation: arm {arm} {why}."
    servers = _tone(found.get(PS_CPU.name))
    tones = {each.alone: _tone(found.get(each.name)) for each in spoken_in("answer", "operations")}
    if all(claim.found.ratio_low is None for claim in found.values()):
        return f"No recommendation: it needs {MIN_ROUNDS} complete rounds."
    told = f"{_SERVERS[servers]}, and {_operations(tones)}."
    sooner, longer = ("better" in tones.values()), ("worse" in tones.values())
    if servers == "better" and longer:
        return f"Do it where the servers are what limits you: {told}"
    if servers == "better":
        return f"{'Do it' if sooner else 'Do it where servers cost you'}: {told}"
    if not (servers or sooner or longer):
        return "Undecided: neither the servers' CPU nor operations differ measurably here."
    if sooner and not longer and not servers:
        return f"Do it for the latency: {told}"
    return f"{'Mixed' if sooner else 'It does not pay here'}: {told}"


_SERVERS = {
    "better": "the servers save CPU",
    "worse": "the servers spend more CPU",
    "": "the servers' CPU does not differ measurably",
}


def _operations(tones: Mapping[str, Tone]) -> str:
    """What is claimed of them: *operations* where it is of pulls and pushes alike."""
    hows = {"better": "complete sooner", "worse": "take longer"}
    if len(set(tones.values())) == 1:
        [tone] = set(tones.values())
        return f"operations {hows[tone]}" if tone else "operations do not differ measurably"
    by_tone = {tone: [ops for ops, its in tones.items() if its == tone] for tone in hows}
    return " but ".join(f"{' and '.join(ops)} {hows[tone]}" for tone, ops in by_tone.items() if ops)
