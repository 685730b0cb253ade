"""The answer of a run in sentences: its verdict, warnings and notes, and those of a dedicated switch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from analysis.caveats import MAX_HOT_PART, Drift, OnBmv2, ReportFacts
from analysis.claims import Claims, Recommendation, RunAnswer, claim_of_capacity, group_by_reason
from analysis.dedicated_switch import (
    Capacity,
    CostReservations,
    DedicatedSwitchPrediction,
    SimulationCheck,
)
from analysis.disturbed_blocks import DisturbedBlocks
from analysis.learning import MIN_REPORTS
from analysis.metrics import PS_CPU, PS_PACKETS, metrics_of_subject
from analysis.record import RunRecord, Staleness
from analysis.sentences.differences import (
    amount,
    changes,
    confidence,
    disturbances,
    misfit,
    not_claimed,
    not_claimed_changes,
    noun,
    operations,
    outcome,
)
from analysis.statistics import ALPHA, MIN_ROUNDS
from analysis.summary import Summary
from analysis.verdict import Claim, Verdict
from analysis.wording import Sentence, change_with_interval, losses, plain
from foundation.designs.combination import Combination
from foundation.designs.interface import Arm
from foundation.designs.registry import described_design
from foundation.logs.columns import at_load
from foundation.text import capital, pluralize

TIMES_OF_CHECKS = {"middle": "in the middle", "end": "at the end"}
_VERDICTS = {
    Recommendation.YES: "{change} pays off",
    Recommendation.IF_SERVERS_LIMIT: "{change} pays off only if the servers' CPU is your bottleneck",
    Recommendation.IF_SERVERS_COST: "{change} pays off if the servers' CPU is your bottleneck",
    Recommendation.FOR_LATENCY: "{change} pays off for its latency",
    Recommendation.MIXED: "{change} has gains and losses",
    Recommendation.NO: "{change} does not pay off",
    Recommendation.UNDECIDED: "this run does not show whether {change} pays off",
}
_MIN_GOODPUT_IN_MILLIONS = 1e5  # values/s


def title(answer: RunAnswer, summary: Summary) -> str:
    place, load = _place_of_run(summary), at_load(answer.load)
    if answer.lead is None:
        return f"{place}: design {summary.reference.design} {load}"
    reference = answer.lead.reference
    what = f"arm {answer.lead.name} against {reference} {load}, in % of {reference}"
    return f"{place}: {what} [{confidence(summary)} interval]"


def _place_of_run(summary: Summary) -> str:
    if summary.is_simulated:
        return "Simulated"
    cpus = "" if summary.cpus is None else f" ({pluralize(summary.cpus, 'CPU')})"
    share = summary.program_share
    shared = ", where the switch shares the workers' cores" if share is not None and share.workers > 0 else ""
    return f"On this machine{cpus}{shared}"


def headline(answer: RunAnswer, summary: Summary) -> str:
    """Return the verdict of a run."""
    if (reason := _no_recommendation(answer, summary)) is not None:
        return reason
    here = " here" if answer.recommendation is Recommendation.NO else ""
    verdict = f"{capital(_verdict(answer, summary))}{here}: {_servers_verdict(answer.claims)}."
    return f"{verdict} {capital(_latency_verdict(answer.claims))}"


def _verdict(answer: RunAnswer | DedicatedSwitchPrediction, summary: Summary) -> str:
    return _VERDICTS[answer.recommendation].format(change=summary.change)


def dedicated_headline(predicted: DedicatedSwitchPrediction, measured: Claims, summary: Summary) -> list[str]:
    """Return the verdict for a dedicated switch, and a sentence for each column with its figures, if any."""
    if (reason := _no_recommendation(predicted, summary)) is not None:
        return [reason]
    columns = {"Dedicated switch (simulated)": predicted.claims, "This machine (measured)": measured}
    return [
        f"With a dedicated switch (simulated), {_verdict(predicted, summary)}.",
        *(
            f"{column}: {_servers_verdict(claims)}; {_latency_verdict(claims)}"
            for column, claims in columns.items()
        ),
    ]


def _no_recommendation(answer: RunAnswer | DedicatedSwitchPrediction, summary: Summary) -> str | None:
    if answer.recommendation in _VERDICTS:
        return None
    if isinstance(answer, DedicatedSwitchPrediction) and (why := _reservation(answer.reservations)):
        return f"No recommendation for a dedicated switch: {why}."
    rounds, lead = summary.loads[answer.load].rounds, "" if answer.lead is None else answer.lead.name
    too_few = f"{pluralize(rounds, 'round')} {'is' if rounds == 1 else 'are'} too few"
    reason = {
        Recommendation.NO_LEAD: "this design has no arm that is meant to save anything",
        Recommendation.NO_ROUND: f"arm {lead} has no complete round",
        Recommendation.NOT_RUN: f"arm {lead} was not run",
        Recommendation.FEW_ROUNDS: f"{too_few}; leave ROUNDS out, or set ROUNDS={MIN_ROUNDS}",
    }[answer.recommendation]
    return f"No recommendation: {reason}."


def _reservation(reservations: CostReservations) -> str | None:
    """Return why a simulation claims nothing, if so."""
    if reservations.disturbed is not None:
        return costs_withheld(reservations.disturbed)
    return None if reservations.misfit is None else misfit(reservations.misfit)


def costs_withheld(disturbed: DisturbedBlocks) -> str:
    """Return that costs of hosts claim nothing, as a clause."""
    return f"costs were measured while the machine was disturbed ({disturbances(disturbed)})"


def _servers_verdict(claims: Claims) -> str:
    found, unclaimed = list[str](), list[tuple[str, Claim]]()
    for metric, metric_noun, less in ((PS_CPU, "CPU", "less"), (PS_PACKETS, "packets", "fewer")):
        claim = claims.get(metric.name)
        if claim is not None and claim.sign:
            found.append(f"{amount(claim, less if claim.sign < 0 else 'more')} {metric_noun}")
        elif claim is not None:
            unclaimed.append((metric_noun, claim))
    if found:
        text = f"{' and '.join(found)} at the servers"
        return f"{text}; {_unclaimed('their ', unclaimed)}" if unclaimed else text
    return _unclaimed("the servers' ", unclaimed) if unclaimed else "nothing of the servers was measured"


def _latency_verdict(claims: Claims) -> str:
    found, unclaimed = list[str](), list[tuple[str, Claim]]()
    for metric in metrics_of_subject("answer", "operations"):
        claim = claims.get(metric.name)
        if claim is not None and claim.sign:
            found.append(f"{metric.noun} take {amount(claim, 'less time' if claim.sign < 0 else 'longer')}")
        elif claim is not None:
            unclaimed.append((metric.noun, claim))
    if not found and not unclaimed:
        return "no times were measured."
    parts = [", ".join(found)] if found else []
    return f"{'; '.join([*parts, _unclaimed('', unclaimed)] if unclaimed else parts)}."


def _unclaimed(owner: str, items: Sequence[tuple[str, Claim]]) -> str:
    """Return what is said of metrics that are not claimed: (noun, claim) each."""
    texts = []
    for alike in group_by_reason(claim for _, claim in items):
        verdict = alike[0].verdict
        nouns = owner + " and ".join(each for each, claim in items if claim in alike)
        if verdict.is_not_significant:
            texts.append(f"{outcome(verdict)} in {nouns}")
        else:
            texts.append(f"{nouns} {not_claimed(verdict, alike[0])}")
    return "; ".join(texts)


def result_title(record: RunRecord) -> str:
    workers, servers = record.config.get("workers", 1), record.config.get("servers", 1)
    changed = "changed" if record.simulation is None else "would change"
    hosts = f"{pluralize(workers, 'worker')} and {pluralize(servers, 'parameter server')}"
    return f"What the switch {changed} for {hosts}"


def busy(disturbed: DisturbedBlocks) -> str:
    """Return that the machine was busy, which the first screen says first."""
    what = "The machine was busy" if disturbed.is_of_machine else "Blocks were disturbed"
    return f"{what}: {disturbances(disturbed)}. Metrics that this can distort are not compared."


def warnings(misses: Iterable[SimulationCheck], summary: Summary, facts: ReportFacts) -> list[str]:
    """Return what a reader of the verdict has to know."""
    texts = (
        [] if facts.bmv2 is None else [_on_bmv2(facts.bmv2, summary, has_slow_agents=bool(facts.slow_agents))]
    )
    texts += [
        f"The simulation misses {noun(each.metric, summary)} on this machine: "
        f"{change_with_interval(each.simulated)} simulated, {change_with_interval(each.measured)} measured."
        for each in misses
    ]
    if facts.drift is not None and facts.drift.is_large:
        texts.append(drifted(facts.drift, summary))
    return [*texts, *large_hot_part(summary)]


def large_hot_part(summary: Summary) -> list[str]:
    """Return the warning that the switch holds more of this model than of others; an empty list if not."""
    if summary.hot_part is None or summary.hot_part <= MAX_HOT_PART:
        return []
    return [
        f"The switch holds {summary.hot_part:.0%} of this model's parameters, and would hold less of a "
        "larger model: a smaller TOP_K shows what to expect of one."
    ]


def _on_bmv2(bmv2: OnBmv2, summary: Summary, has_slow_agents: bool) -> str:
    text = "The switch is BMv2"
    if bmv2.lead is not None and bmv2.reference is not None:
        text += (
            f": the cluster carries {bmv2.lead.steps_per_s:,.0f} steps/s with {summary.change} and "
            f"{bmv2.reference.steps_per_s:,.0f} without, which are {bmv2.lead.rpcs_per_s:,.0f} and "
            f"{bmv2.reference.rpcs_per_s:,.0f} RPCs/s"
        )
    text += "."
    if bmv2.loses:
        reason = "" if has_slow_agents else ", probably because BMv2 is the bottleneck"
        text += f" {capital(summary.change)} loses here{reason}."
    return f"{text} softswitch, the default target, runs the same program faster."


def drifted(drift: Drift, summary: Summary) -> str:
    when, rate = drift.largest_change
    direction = "slower" if rate < 1 else "faster"
    text = f"The machine was {abs(rate - 1) * 100:.0f} % {direction} {TIMES_OF_CHECKS[when]} of the run"
    if summary.offered_rate and summary.rate is None:
        load = list(summary.offered_rate)[-1]
        text += f", so load {load} was nearer {float(load) / rate:.1f} then"
    return f"{text}."


def _capacities(summary: Summary, lead: Arm | None) -> str:
    if lead is None or lead.reference is None or claim_of_capacity(summary, lead) is None:
        return "the range of its measurements."
    checks = sum(check.when == "end" for check in summary.capacity_checks)
    return f"{checks} measurements of all arms in turn, {100 * (1 - ALPHA):.0f} % interval."


def _validation(summary: Summary) -> str:
    if summary.has_separate_cpus:
        return "and measured beside it with a CPU for each worker, each server and the switch"
    return "not validated on separate cores"


def first_screen_notes(
    answer: RunAnswer, summary: Summary, where: str, has_rows: bool, has_dedicated: bool
) -> list[str]:
    """Return what the numbers of the first screen are; `where` is the machine or machines."""
    notes = []
    if has_dedicated:
        notes.append(
            "Dedicated switch: the same steps, simulated with the costs measured in this run, "
            f"{_validation(summary)}; every worker and server has a core, and the interval includes the "
            "simulation's error on this machine."
        )
    if has_rows and not summary.is_simulated:
        separate = "a CPU for each worker, each server and the switch; " if summary.has_separate_cpus else ""
        notes.append(
            f"{where.capitalize()}: {separate}{pluralize(summary.loads[answer.load].rounds, 'round')} "
            f"{at_load(answer.load)}, {confidence(summary)} intervals; capacity: "
            + _capacities(summary, answer.lead)
        )
    if summary.staleness is not None:
        notes.append(_ages(summary.staleness))
    if summary.is_sound:
        notes.append(_sound_updates(summary))
    return notes


def _sound_updates(summary: Summary) -> str:
    updates, known = summary.updates, summary.updates.sent - summary.updates.unknown
    pushed = f"{known:,} {_updated(summary.dims)} were pushed"
    if updates.combination is Combination.ADD:
        unknown = ""
        if updates.unknown:
            unknown = f" Each of {updates.unknown:,} more, of dead workers, was added once or not at all."
        return f"{pushed} and added: none lost, none doubled, no overflow.{unknown}"
    if updates.combination is Combination.NONE:
        return f"{pushed}. {unaccounted(summary)}"
    return f"{pushed}, and every parameter holds {updates.combination.result}."


def unaccounted(summary: Summary) -> str:
    return (
        f"Design {summary.reference.design} declares no combination of values, so none were compared: "
        "whether any was lost is not known."
    )


def _updated(dims: Sequence[int]) -> str:
    """Return what an update is of."""
    if max(dims) == 1:
        return "values"
    return f"rows of {dims[0]} values" if len(dims) == 1 else f"rows of {min(dims)} to {max(dims)} values"


def _ages(staleness: Staleness) -> str:
    bound = f"{staleness.bound_ms:g} ms"
    beyond_bound = (
        f"{staleness.late / staleness.copies:.1%} were older than the bound, {bound}"
        if staleness.late
        else f"bound {bound}"
    )
    return (
        f"Values in the switch were {staleness.p50_ms:.1f} ms old when newer ones replaced them (median; p99 "
        f"{staleness.p99_ms:.1f}, largest {staleness.oldest_ms:.1f} ms; {beyond_bound})."
    )


def broken(summary: Summary) -> str:
    updates, reasons = summary.updates, []
    if updates.lost or updates.mismatched_keys:
        reasons.append(losses(updates.lost, updates.mismatched_keys, updates.combination))
    if summary.overflows:
        reasons.append(f"{summary.overflows:,} additions at the switch overflowed")
    if summary.changed_arms:
        reasons.append(changed_arms(summary))
    return f"Not to be trusted, because {'; '.join(reasons)}."


def changed_arms(summary: Summary) -> str:
    return f"offload or proxy of {' and '.join(summary.changed_arms)} was changed during the run"


def answer_sentences(answer: RunAnswer, summary: Summary, facts: ReportFacts) -> Iterator[Sentence]:
    if answer.lead is None:
        yield from map(plain, _lockstep(summary, facts))
    yield from changes(answer.claims, summary)
    if summary.reports is not None and summary.reports < MIN_REPORTS:
        yield plain(
            "Too early to say whether the model learns the same: all arms have "
            f"{pluralize(summary.reports, 'report')} of every worker, and it takes {MIN_REPORTS}. Report "
            "more often, or give more ROUNDS."
        )
    for arm, claims in answer.other_arms:
        yield from operations(claims, arm.sentence_prefix)
        yield from not_claimed_changes(claims, summary, arm.sentence_prefix)
    if answer.missing_null is not None and (answer.claims or any(claims for _, claims in answer.other_arms)):
        yield plain(
            f"Arm {answer.missing_null.name} was not run, so noise was not measured: the intervals alone "
            "decide."
        )


def _lockstep(summary: Summary, facts: ReportFacts) -> Iterator[str]:
    """Yield the answer for a design without a lead arm, whose workers add up one vector per step."""
    if summary.vector is None:
        return
    reference, first_load = summary.reference, next(iter(summary.loads.values()))
    push_us = first_load.arms[reference.name].op_latency_us["push"].mean
    if push_us is not None:
        yield (
            f"All workers have the sum of {summary.vector:,} values in {push_us / 1e3:,.1f} ms: "
            f"{_goodput(reference, facts)} values/s a worker."
        )
    reference_design = described_design(reference.design)
    yield f"{capital(reference_design.summary)}."
    for arm in summary.run_arms:
        if arm is not reference:
            yield f"Arm {arm.name}, {arm.about}: {_goodput(arm, facts)} values/s."
    yield f"What is promised: {reference_design.promise}."


def _goodput(arm: Arm, facts: ReportFacts) -> str:
    rate = facts.goodput[arm.name]
    if not rate:
        return "no"
    return f"{rate / 1e6:,.2f} million" if rate >= _MIN_GOODPUT_IN_MILLIONS else f"{rate:,.0f}"


def dedicated_title(predicted: DedicatedSwitchPrediction) -> str:
    reference = predicted.lead.reference
    arms = f"arm {predicted.lead.name} against {reference} at load {predicted.load}, in % of {reference}"
    return f"With a dedicated switch (simulated): {arms} [95 % interval and the model's error]"


def dedicated_sentences(predicted: DedicatedSwitchPrediction, summary: Summary) -> Iterator[Sentence]:
    yield from changes(predicted.claims, summary, where="")
    if predicted.capacity is not None:
        yield plain(_dedicated_capacity(predicted.capacity, summary.change))
    network = predicted.network
    speed = device_speed(network["switch_us"], network["switch_mpps"])
    yield plain(
        f"Simulated, {_validation(summary)}: the same steps, costs measured in this run, every worker and "
        f"server with a core of its own, and the switch a device that takes {speed}."
    )
    if predicted.checks:
        cores = "with a core for each agent" if summary.has_separate_cpus else "with the cores shared"
        checks = "; ".join(
            f"{noun(each.metric, summary)} {change_with_interval(each.simulated)}, "
            f"measured {change_with_interval(each.measured)}"
            for each in predicted.checks
        )
        yield plain(f"How far the model is off, {cores} as on this machine: {checks}.")


def device_speed(frame_us: float, mpps: float) -> str:
    millions = f"{mpps:,.0f}" if mpps >= 10 else f"{mpps:g}"
    return f"{frame_us:g} µs for a frame and {millions} million of them a second"


def _dedicated_capacity(capacity: Capacity, change: str) -> str:
    if (verdict := capacity.reservations.verdict) is not None:
        reason = _reservation(capacity.reservations)
        text = f"Capacity: × {capacity.ratio:.2f}, {outcome(verdict)}, because {reason}"
    elif capacity.sign:
        text = f"The cluster carries {capacity.ratio:.2f} times as much"
    elif capacity.low is not None:
        text = f"Capacity: no significant difference, × {capacity.ratio:.2f}"
    else:
        text = f"Capacity: × {capacity.ratio:.2f}, {not_claimed(Verdict.UNCHECKED, None)}"
    if capacity.low is not None and capacity.high is not None:
        text += f" [{capacity.low:.2f}, {capacity.high:.2f}]"
    rates = f"{capacity.lead:,.0f} steps/s of all workers, and {capacity.reference:,.0f} without {change}"
    return f"{text}: {rates}."
