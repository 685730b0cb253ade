"""Sentences about what a report's numbers rest on: rounds, disturbances, capacities, updates, losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis import disturbance
from analysis.caveats import P99_STEPS, OperationClaims, ReportFacts, SlowAgents
from analysis.metrics import METRICS, goals
from analysis.record import WorkerChange
from analysis.sentences.answers import (
    TIMES_OF_CHECKS,
    changed_arms,
    drifted,
    large_hot_part,
    unaccounted,
)
from analysis.sentences.differences import amount, confidence, loss_noun, outcome, reason
from analysis.statistics import ALPHA
from analysis.stopping import LOOKS
from analysis.summary import ProgramShare, Summary
from analysis.unexplained_waits import NORMAL_WAITING
from analysis.verdict import Claim
from analysis.wording import change_with_interval, interval
from foundation.designs.arms import arms_by_reference
from foundation.designs.combination import Combination
from foundation.logs.columns import at_load, load_title
from foundation.text import capital, pluralize, signed

_MIN_SHOWN_SHARE = 0.0005  # smaller ones would be shown as 0.0 %


def all_facts(summary: Summary, facts: ReportFacts) -> list[str]:
    return list(_facts(summary, facts))


def _facts(summary: Summary, facts: ReportFacts) -> Iterator[str]:
    if summary.is_simulated:
        yield _simulation(summary)
    yield from map(_slow_agents, facts.slow_agents)
    for each in facts.operations:
        yield _operations(each, summary)
    yield from _rounds(summary, facts)
    yield from _disturbed_blocks(summary)
    yield from _capacity(summary, facts)
    if summary.hot_update_share is not None and summary.lead is not None:
        share = f"{summary.hot_update_share:.1%}"
        yield f"The switch served {share} of the pushed lanes in arm {summary.lead.name}."
    yield from map(_warning, large_hot_part(summary))
    yield from _updates(summary)
    if summary.registers:
        values = ", ".join(f"{title} {value:,}" for title, value in summary.registers.items())
        yield f"Registers at the end, of all arms together: {values}."
    if summary.program_share is not None:
        yield _program(summary.program_share)
    if summary.restarts:
        restarts = ", ".join(f"{name} {pluralize(n, 'time')}" for name, n in summary.restarts.items())
        yield f"Restarted during the run: {restarts}. Blocks with a restart count as disturbed."
    yield from _worker_changes(summary.worker_changes)
    if summary.changed_arms:
        yield f"WARNING: {changed_arms(summary)}: its numbers are not that arm's."
    yield from _losses(summary)
    empty = summary.empty_rpc_latency_us
    if empty.p50 is not None and empty.p99 is not None:
        latencies = f"{empty.p50:,.0f} µs (p50), {empty.p99:,.0f} µs (p99)"
        yield f"An empty RPC through switch and server takes {latencies}."
    for name, load in summary.loads.items():
        if load.rounds_fallen_behind:
            rounds = f"{load.rounds_fallen_behind} of {pluralize(load.rounds, 'round')}"
            yield f"{capital(at_load(name))} the load generator fell behind in {rounds}."


def _worker_changes(changes: Sequence[WorkerChange]) -> Iterator[str]:
    deaths = [f"{each.worker} {_at_round(each.round)}" for each in changes if each.change == "died"]
    if deaths:
        yield f"Workers that died: {', '.join(deaths)}. Blocks in which a worker dies or joins are run again."
    joins = [
        f"{each.worker} {_at_round(each.round)} ({pluralize(each.rows, 'row')} of the dead one pushed)"
        for each in changes
        if each.change == "joined"
    ]
    if joins:
        yield f"Workers that took the rank of a dead one: {', '.join(joins)}."


def _at_round(number: int) -> str:
    return "before the rounds" if number < 0 else f"in round {number + 1}"


def _simulation(summary: Summary) -> str:
    passes = ""
    if summary.loop_s and summary.packet_passes:
        passes = f", {summary.packet_passes / summary.loop_s:,.0f} passes a second of the event loop"
    return (
        f"Simulated: {summary.rpcs:,} RPCs, {summary.packet_passes:,} passes through the P4 program; "
        f"{summary.virtual_s:,.3f} s in {summary.real_s:,.1f} s{passes}. A simulation has no machine noise, "
        "so no arm repeats the baseline: the intervals alone decide."
    )


def _slow_agents(slow: SlowAgents) -> str:
    is_mixed = slow.codec == "mixed"
    agents = "Every second worker and the first server are" if is_mixed else "The agents are"
    times = (
        "The times in this report are of both kinds of agents."
        if is_mixed
        else "All times and rates in this report are the slow agents'."
    )
    cost = (
        f"an RPC takes {slow.cost.worker_us:,.0f} µs of a worker's CPU and {slow.cost.server_us:,.0f} µs of "
        "a server's"
    )
    if slow.compiled is None or slow.slowdown is None:
        return (
            f"{agents} of Scapy (codec {slow.codec}): {cost}. Compiled agents were not measured, because "
            f"numba, which compiles them, was not installed. {times}"
        )
    return (
        f"{agents} of Scapy (codec {slow.codec}), and {slow.slowdown:,.0f} times slower than compiled ones: "
        f"{cost}; compiled agents, measured in the same run, take {slow.compiled.worker_us:,.1f} and "
        f"{slow.compiled.server_us:,.1f} µs. {times}"
    )


def _operations(operations: OperationClaims, summary: Summary) -> str:
    where = capital(load_title(operations.load))
    cpus = "" if summary.cpus is None else f", on {pluralize(summary.cpus, 'CPU')}"
    arms = "; ".join(f"{arm}: {_operations_of_arm(claims)}" for arm, claims in operations.arms)
    return f"{where}{cpus}, compared with {operations.reference}: {arms}."


def _operations_of_arm(claims: Sequence[Claim]) -> str:
    text = ", ".join(map(_operation, claims))
    invalid = [claim for claim in claims if claim.verdict.is_invalid]
    return f"{text} (because {reason(invalid[0].verdict, invalid[0])})" if invalid else text


def _operation(claim: Claim) -> str:
    what = amount(claim, "sooner" if claim.sign < 0 else "later") if claim.sign else outcome(claim.verdict)
    return f"{claim.metric.noun} {what} {interval(claim.change)}".rstrip()


def _rounds(summary: Summary, facts: ReportFacts) -> Iterator[str]:
    """Yield why rounds ended, with the width of the widest interval, and the blocks that are short."""
    if summary.ended_by is not None:
        text = _end_of_rounds(summary, summary.ended_by)
        if summary.widest is not None:
            width = summary.widest
            metric = METRICS[width.metric].label
            where = f"{load_title(width.load)}, {width.arm}, {metric}"
            text += f" The widest interval: {where}, ±{width.half_width:.1%}."
        yield text
    for name, steps in facts.short_blocks.items():
        yield (
            f"{capital(at_load(name))} a block has {pluralize(steps, 'measured step')}; with fewer than "
            f"{P99_STEPS}, its p99 is its slowest."
        )


def _end_of_rounds(summary: Summary, ended_by: str) -> str:
    wanted = goals()
    goal = f"±{wanted['pull_mean']:.0%} (p99: ±{wanted['pull_p99']:.0%})"
    look = f"a look at {confidence(summary)} intervals"
    precise = "PRECISE=1 takes the time that narrow intervals need."
    if ended_by == "budget":
        if summary.alpha < ALPHA:
            return f"Rounds ended at {look}: those up to the next look would take too long. {precise}"
        budget = f"Rounds ended with the time budget of {summary.budget_s:.0f} s"
        if summary.steps_per_s:
            return f"{budget}, before the script had ended in every arm."
        return f"{budget}. The goal was intervals of {goal}."
    more = f"more of them, up to {LOOKS[-1].rounds}, would decide no further claim"
    return {
        "decided": f"Rounds ended at {look}, when every claim was decided.",
        "futility": f"Rounds ended at {look}: {more}. {precise}",
        "precision": f"Rounds went on until the intervals of pull and push were within {goal}.",
        "script": "Rounds went on until the script had ended in every arm.",
        "rounds": "Rounds ended with the number that was asked for.",
    }[ended_by]


def _disturbed_blocks(summary: Summary) -> Iterator[str]:
    if summary.ended_by is None:  # the run ended before its rounds did
        return
    repeated = sum(load.blocks_repeated for load in summary.loads.values())
    disturbed = sum(load.blocks_disturbed for load in summary.loads.values())
    if not repeated and not disturbed:
        yield "No block was disturbed."
        return
    by_arm = "; ".join(f"{arm}: {_counts(reasons)}" for arm, reasons in summary.repeated.items())
    yield (
        f"Disturbed and run again: {pluralize(repeated, 'block')}{f' ({by_arm})' if by_arm else ''}. "
        f"Disturbed in each try, and counted nevertheless: {disturbed}."
    )
    yield (
        "A block counts as disturbed if a server or the switch restarted in it; if steal took more than "
        f"{disturbance.MAX_STEAL_SHARE:.0%} of all CPU time, or other processes more than "
        f"{disturbance.MAX_OTHERS_CPU_SHARE:.0%}; or if one of these was above "
        f"{disturbance.UNUSUAL_FACTOR:.0f} times its median in the arm's earlier blocks: CPU pressure or a "
        f"process's wait for a CPU (above {NORMAL_WAITING:.0%} of the block), retransmissions "
        f"(above {disturbance.NORMAL_RETRANSMISSIONS}), how late the load generator was (above a period)."
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _capacity(summary: Summary, facts: ReportFacts) -> Iterator[str]:
    """Yield the arms' capacities at first, and the minimum capacity later."""
    if summary.steps_per_s:
        rates = ", ".join(f"{arm} {rate:,.1f}" for arm, rate in summary.steps_per_s.items())
        yield (
            "The workers are a script, in a closed loop: each takes its next step when it is ready. Steps/s "
            f"of all workers, with what the script computes: {rates}. A step is a push, with the pulls since "
            "the push before it."
        )
    if facts.drift is None:
        return
    rates = ", ".join(f"{arm} {rate:,.0f}" for arm, rate in facts.capacity.items())
    text = f"Capacity, steps/s in a closed loop: {rates}."
    if summary.offered_rate:
        of = "the lowest" if summary.rate is None else f"{summary.rate:,.0f} steps/s, as was asked for"
        text += f" Loads are fractions of {of}."
    yield text
    first = facts.drift.first_capacity
    later = ", ".join(
        f"{rate:,.0f} {TIMES_OF_CHECKS[when]} ({signed(100 * (rate / first - 1))}%)"
        for when, rate in facts.drift.later_capacities
    )
    warning = f"{_warning(drifted(facts.drift, summary))} " if facts.drift.is_large else ""
    yield f"{warning}The lowest capacity was {first:,.0f} steps/s at first, {later}."


def _warning(sentence: str) -> str:
    return f"WARNING: {sentence[0].lower()}{sentence[1:]}"


def _updates(summary: Summary) -> Iterator[str]:
    updates = summary.updates
    if updates.combination is Combination.NONE:
        yield f"Updates: {pluralize(updates.sent, 'lane')} sent. {unaccounted(summary)}"
        return
    yield (
        f"Updates: {pluralize(updates.sent, 'lane')} sent, {updates.applied:,} applied, {updates.lost:,} "
        f"lost, {updates.unknown:,} unknown; "
        f"{pluralize(updates.mismatched_keys, 'key differs', 'keys differ')}; "
        f"{pluralize(summary.overflows, 'overflow')}."
    )
    if updates.collected is not None and summary.vector is None:
        uncollected = ""
        if updates.uncollected:
            uncollected = f" ({updates.uncollected:,} did not reach it; the servers' own logs have them)"
        yield (
            f"The log collector counted {pluralize(updates.collected, 'update')} at the parameter servers"
            f"{uncollected}; {pluralize(summary.dropped_rows, 'log row')} dropped."
        )


def _program(share: ProgramShare) -> str:
    """Return the cores on which the switch ran, and the CPU time it took of them."""
    cores = share.cores
    of_senders = (
        f"{share.workers:.1%} of the workers' CPU time ({cores.workers:.2f} cores) and {share.servers:.1%} "
        f"of the servers' ({cores.servers:.2f} cores)"
    )
    if cores.is_on_senders_cpus:
        return f"The switch ran on its senders' cores: it took {of_senders}."
    owners = {
        "no agent has": cores.apart,
        "the servers have": cores.on_servers,
        "the workers have": cores.on_workers,
    }
    amounts = [
        f"{used:.1%} of a core that {owner}" for owner, used in owners.items() if used > _MIN_SHOWN_SHARE
    ]
    if share.workers + share.servers > _MIN_SHOWN_SHARE:
        amounts.append(f"for frames that were sent there, {of_senders}")
    return f"The switch ran apart from its senders: it took {'; '.join(amounts)}."


def _losses(summary: Summary) -> Iterator[str]:
    scope = " over all rounds and loads" if summary.reports is None else ", which all arms have"
    for name, arms in arms_by_reference(summary.learning).items():
        reference = summary.learning[arms[0].name].reference
        losses = ", ".join(f"{arm.name} {change_with_interval(summary.learning[arm.name])}" for arm in arms)
        yield f"{capital(loss_noun(summary))}{scope}, compared with {name}'s {reference:.4f}: {losses}."
    if summary.last_reported:
        losses = ", ".join(f"{arm} {loss:.4g}" for arm, loss in summary.last_reported.items())
        yield f"Loss of the last of these reports: {losses}."
    if summary.last_loss is not None and summary.chance_loss:
        text = (
            f"Mean log loss of the last round: {summary.last_loss:.4f}; guessing by the labels' frequency "
            f"alone: {summary.chance_loss:.4f}."
        )
        if summary.last_loss < summary.chance_loss:
            yield text
        else:
            yield (f"WARNING: the model learned nothing. {text} Try another learning_rate, or more rounds.")
