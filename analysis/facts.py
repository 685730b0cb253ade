"""The headline facts of a run, one sentence each: what it says, and what its numbers rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.claims import Claim, claims, metric_of_learning
from analysis.disturbance import bounds
from analysis.metrics import METRICS, spoken_in
from analysis.precision import Width, goals
from analysis.record import FAST, AgentCost, capacity_by_arm, least_capacity
from analysis.statistics import MIN_ROUNDS
from analysis.summary import LoadSummary, ProgramShare, Summary
from analysis.wording import difference
from foundation.designs.arms import compared
from foundation.logs.columns import at_load, load_title
from foundation.words import capital, counted

DRIFT = 0.1
"""Change of the capacity that is said."""
MUCH = 0.1
"""Part of a model in the switch above which that is said; [DDL]'s is some 2 % (20,000 of 900,000)."""
_P99_STEPS = 100
"""Fewer have no p99 but their slowest."""


def facts(summary: Summary) -> Iterator[str]:
    """The headline facts, one sentence each."""
    if summary.virtual_s is not None:
        yield (
            f"Simulated in virtual time: {summary.rpcs:,} RPCs, {summary.packet_passes:,} passes through the "
            f"P4 program; {summary.virtual_s:,.3f} s in {summary.real_s:,.1f} s{_speed(summary)}. "
            "Virtual time has no machine noise, so no arm repeats the baseline: the intervals alone decide."
        )
    yield from _slowness(summary.agents)
    yield from (told for name in summary.loads for told in _operations(summary, name))
    yield from _rounds(summary)
    yield from _disturbance(summary)
    yield from _capacity(summary)
    share, updates = summary.hot_update_share, summary.updates
    if share is not None and summary.lead is not None:
        yield f"The switch served {share:.1%} of the pushed lanes in arm {summary.lead.name}."
    if summary.hot_part is not None and summary.hot_part > MUCH:
        yield (
            f"WARNING: the switch has room for {summary.hot_part:.0%} of this model's parameters. "
            "It would serve less of a larger model. A smaller TOP_K shows what to expect of one."
        )
    yield (
        f"Updates: {counted(updates.sent, 'lane')} sent, {updates.applied:,} applied, {updates.lost:,} lost, "
        f"{updates.unknown:,} unknown; {counted(updates.mismatched_keys, 'key differs', 'keys differ')}; "
        f"{counted(summary.overflows, 'overflow')}."
    )
    if updates.collected is not None and summary.vector is None:
        yield _logs(updates.collected, updates.uncollected, summary.dropped_rows)
    if summary.program_share is not None:
        yield _program(summary.program_share)
    if summary.restarts:
        names = ", ".join(f"{name} {counted(n, 'time')}" for name, n in summary.restarts.items())
        yield f"Restarted during the run: {names}. Blocks with a restart count as disturbed."
    if summary.changed_arms:
        arms = ", ".join(summary.changed_arms)
        yield (
            f"WARNING: somebody changed offload or proxy of {arms} during the run: "
            "its numbers are not that arm's."
        )
    yield from _losses(summary)
    if summary.last_loss is not None and summary.chance_loss:
        yield _learning(summary.last_loss, summary.chance_loss)
    empty = summary.empty_rpc_latency_us
    if empty.p50 is not None and empty.p99 is not None:
        took = f"{empty.p50:,.0f} µs (p50), {empty.p99:,.0f} µs (p99)"
        yield f"An empty RPC through switch and server takes {took}."
    for name, load in summary.loads.items():
        if load.rounds_fallen_behind:
            yield (
                f"{capital(at_load(name))} the load generator fell behind in {load.rounds_fallen_behind} "
                f"of {counted(load.rounds, 'round')}."
            )


def _program(share: ProgramShare) -> str:
    """Where the switch ran, and what of whose cores it took."""
    cores = share.cores
    of_senders = (
        f"{share.workers:.1%} of the workers' CPU time ({cores.workers:.2f} cores) and "
        f"{share.servers:.1%} of the servers' ({cores.servers:.2f} cores)"
    )
    if cores.is_its_senders:
        return f"The switch ran on its senders' cores: it took {of_senders}."
    others = {
        "no agent has": cores.apart,
        "the servers have": cores.on_servers,
        "the workers have": cores.on_workers,
    }
    told = [f"{took:.1%} of a core that {whose}" for whose, took in others.items() if took > 0.0005]
    if share.workers + share.servers > 0.0005:
        told.append(f"for frames that were sent there, {of_senders}")
    return f"The switch ran apart from its senders: it took {'; '.join(told)}."


def _slowness(agents: Mapping[str, AgentCost]) -> Iterator[str]:
    """Of agents that are not the compiled ones, how many times slower they are."""
    compiled = agents.get(FAST)
    for codec, cost in agents.items():
        if compiled is None or codec == FAST:
            continue
        times = (cost.worker_us + cost.server_us) / (compiled.worker_us + compiled.server_us)
        yield (
            f"The agents (codec {codec}) are {times:,.0f} times slower than the compiled ones: an RPC takes "
            f"{cost.worker_us:,.0f} µs of a worker's CPU and {cost.server_us:,.0f} µs of a server's; "
            f"compiled agents, measured in the same run, take {compiled.worker_us:,.1f} and "
            f"{compiled.server_us:,.1f} µs. All times and rates in this report are the slow agents'."
        )


def _operations(summary: Summary, name: str) -> Iterator[str]:
    """Of each arm at a load, what is claimed of pulls and pushes."""
    where = "" if summary.cpus is None else f", on {counted(summary.cpus, 'CPU')}"
    for baseline, arms in compared(summary.loads[name].differences).items():
        told = [_of_arm(arm.name, claims(summary, name, arm.name)) for arm in arms if not arm.is_repetition]
        if any(told):
            compared_with = f"{capital(load_title(name))}{where}, compared with {baseline}"
            yield f"{compared_with}: {'; '.join(filter(None, told))}."


def _of_arm(arm: str, found: Mapping[str, Claim]) -> str:
    """Empty where there are no intervals."""
    of_ops = [found[metric.name] for metric in spoken_in("answer", "operations") if metric.name in found]
    if not of_ops or any(claim.found.ratio_low is None for claim in of_ops):
        return ""
    # All are times, and hindered by the same.
    withheld = next((claim.hindrance for claim in of_ops if claim.is_withheld), "")
    why = f" (not compared, because {withheld})" if withheld else ""
    return f"{arm}: {', '.join(map(_operation, of_ops))}{why}"


def _operation(claim: Claim) -> str:
    ops, found = claim.metric.alone, claim.found
    assert found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None
    bounds = f"[{found.ratio_low:+.1%}, {found.ratio_high:+.1%}]"
    if not claim.sign:
        return f"{ops} {'' if claim.is_withheld else 'no measurable difference '}{bounds}"
    return f"{ops} {abs(found.ratio):.1%} {'sooner' if found.ratio < 0 else 'later'} {bounds}"


def _losses(summary: Summary) -> Iterator[str]:
    metric = metric_of_learning(summary)
    for name, arms in compared(summary.learning).items():
        baseline = summary.learning[arms[0].name].baseline
        told = ", ".join(f"{arm.name} {difference(summary.learning[arm.name]).text}" for arm in arms)
        over = " over all rounds and loads" if summary.reports is None else ", which all arms have"
        yield f"{capital(metric.label)}{over}, compared with {name}'s {baseline:.4f}: {told}."
    if summary.last_reported:
        told = ", ".join(f"{arm} {loss:.4g}" for arm, loss in summary.last_reported.items())
        yield f"Loss of the last of these reports: {told}."


def _logs(collected: int, uncollected: int, dropped: int) -> str:
    others = f" ({uncollected:,} did not reach it; the servers' own logs have them)" if uncollected else ""
    return (
        f"The log collector counted {counted(collected, 'update')} at the parameter servers{others}; "
        f"{counted(dropped, 'log row')} dropped."
    )


def without_intervals(load: LoadSummary) -> Iterator[str]:
    """Why a load's differences have no intervals, where they have none."""
    comparisons = [each for metrics in load.differences.values() for each in metrics.values()]
    if comparisons and all(each.low is None for each in comparisons):
        why = f"they need {MIN_ROUNDS} complete rounds; from fewer they would be too narrow"
        yield f"No 95 % intervals: {why}."


def _speed(summary: Summary) -> str:
    if not summary.loop_s or not summary.packet_passes:
        return ""
    return f", {summary.packet_passes / summary.loop_s:,.0f} passes a second of the event loop"


def _rounds(summary: Summary) -> Iterator[str]:
    """Why there were no more rounds, and how wide that left the intervals."""
    wanted = goals()
    goal = f"±{wanted['pull_mean']:.0%} (p99: ±{wanted['pull_p99']:.0%})"
    wide = "" if summary.widest is None else f" The widest interval: {_width(summary.widest)}."
    if summary.ended_by == "precision":
        yield f"Rounds went on until the intervals of pull and push were within {goal}.{wide}"
    elif summary.ended_by == "script":
        yield f"Rounds went on until the script had ended in every arm.{wide}"
    elif summary.ended_by == "budget" and summary.steps_per_s:
        budget = f"Rounds ended with the time budget of {summary.budget_s:.0f} s"
        yield f"{budget}, before the script had ended in every arm.{wide}"
    elif summary.ended_by == "budget":
        budget = f"Rounds ended with the time budget of {summary.budget_s:.0f} s"
        yield f"{budget}. The goal was intervals of {goal}.{wide}"
    elif summary.ended_by == "rounds":
        yield f"Rounds ended with the number that was asked for.{wide}"
    for name, load in summary.loads.items():
        if summary.ended_by is not None and load.block_steps < _P99_STEPS:
            yield (
                f"{capital(at_load(name))} a block has {counted(load.block_steps, 'measured step')}; with "
                f"fewer than {_P99_STEPS}, its p99 is its slowest."
            )


def _width(width: Width) -> str:
    return f"{load_title(width.load)}, {width.arm}, {METRICS[width.metric].label}, ±{width.half_width:.1%}"


def _disturbance(summary: Summary) -> Iterator[str]:
    """How many blocks were run again, for what, and how many stayed disturbed."""
    if summary.ended_by is None:
        return
    repeated = sum(load.blocks_repeated for load in summary.loads.values())
    disturbed = sum(load.blocks_disturbed for load in summary.loads.values())
    if not repeated and not disturbed:
        yield "No block was disturbed."
        return
    of_arms = "; ".join(
        f"{arm}: {', '.join(f'{reason} {number}' for reason, number in found.items())}"
        for arm, found in summary.repeated.items()
    )
    again = f"Disturbed and run again: {counted(repeated, 'block')}" + (f" ({of_arms})" if of_arms else "")
    yield f"{again}. Disturbed in each try, and counted nevertheless: {disturbed}."
    yield f"A block counts as disturbed if {bounds()}."


def _capacity(summary: Summary) -> Iterator[str]:
    """What the arms carried at first, and what all of them did later."""
    if summary.steps_per_s:
        told = ", ".join(f"{arm} {rate:,.1f}" for arm, rate in summary.steps_per_s.items())
        yield (
            f"The workers are a script, in a closed loop: each takes its next step when it is ready. "
            f"Steps/s of all workers, with what the script computes: {told}. A step is a push, with the "
            "pulls since the push before it."
        )
    if not summary.capacity_checks:
        return
    told = ", ".join(f"{arm} {rate:,.0f}" for arm, rate in capacity_by_arm(summary.capacity).items())
    of = "the lowest" if summary.rate is None else f"{summary.rate:,.0f} steps/s, as was asked for"
    has_loads = bool(summary.offered_rate)
    loads = f" Loads are fractions of {of}." if has_loads else ""
    yield f"Capacity, steps/s in a closed loop: {told}.{loads}"
    first = least_capacity(summary.capacity)
    later = [(check.when, least_capacity(check.capacity)) for check in summary.capacity_checks]
    told = ", ".join(f"{rate:,.0f} {_WHEN[when]} ({rate / first - 1:+.0%})" for when, rate in later)
    has_drifted = any(abs(rate / first - 1) > DRIFT for _, rate in later)
    is_of_first = has_loads and summary.rate is None
    of_first = ", and loads are fractions of the first" if is_of_first else ""
    warning = f"WARNING: capacity drifted{of_first}. " if has_drifted else ""
    yield f"{warning}The lowest was {first:,.0f} steps/s at first, {told}."


_WHEN = {"middle": "in the middle", "end": "at the end"}


def _learning(loss: float, chance: float) -> str:
    """What the model has learned; `chance` is above 0, so that there was something to learn."""
    told = (
        f"Mean log loss of the last round: {loss:.4f}; guessing by the labels' frequency alone: {chance:.4f}."
    )
    if loss < chance:
        return told
    return f"WARNING: the model learned nothing. {told} Try another learning_rate, or more rounds."
