"""The sentences of the page alone: what was run, how to read it, and the glossary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analysis.metrics import metrics_of_table
from analysis.record import ANY, RunRecord
from analysis.sentences.differences import confidence
from analysis.sentences.machines import link_rows, machine_rows
from analysis.sentences.networks import describe_network
from analysis.summary import Summary
from analysis.wording import in_sentences
from foundation.designs.arms import has_hot_set
from foundation.designs.interface import Arm
from foundation.logs.columns import at_load
from foundation.text import pluralize

NameAndText = tuple[str, str]
HOW_TO_READ_LOGS = (
    "This report shows logs that were given to it. Nothing was run, and there is nothing to compare with. "
    "Distributions are exact at a hundred edges a decade."
)
_GLOSSARY = {
    "lane": "one parameter's place in an RPC: a 64-bit key and a 32-bit value; an RPC has up to 32",
    "arm": "one way to run the same steps; on the wire an arm is a job of its own",
    "job": "a set of parameters with their own values, slots and table entries",
    "all-hit, mixed, cold": "RPCs that the switch answers alone, serves in part, and passes on",
    "load": "offered steps/s, as a fraction of the lowest capacity of all arms, measured in a closed loop",
    "W_proc": "worker: processing the response",
    "W_queue": "worker: the response's wait in the receive queue",
    "PS_proc": "server: processing the request",
    "PS_queue": "server: the request's wait in the receive queue",
    "N_tx": "network and network stack: t1 − t0 − PS_queue − PS_proc",
    "Pan et al.": "Dissecting the Communication Latency in Distributed Deep Sparse Learning, IMC 2020",
}


class LoggedTotals(NamedTuple):
    rows: int
    workers: int
    servers: int
    seconds: float


def page_title(name: str, record: RunRecord) -> str:
    how = f"with {record.target} as the switch" if record.simulation is None else "simulated"
    return f"Run {name}, {how}"


def _switch(record: RunRecord, frame_us: float | None) -> str:
    """Return the switch, with the CPU time per frame of its program in the kernel."""
    if record.datapath is None:
        return record.target if record.simulation is None else "the P4 program"
    text = f"{record.target}, its datapath {'in the kernel' if record.datapath == 'kernel' else 'a process'}"
    if not frame_us:
        return text
    is_on_senders = record.placement.get("switch", ANY) == ANY and not record.machines
    owner = "the senders'" if is_on_senders else "its own"
    return f"{text} ({frame_us:.1f} µs of {owner} CPU time for a frame)"


def provenance_rows(record: RunRecord, summary: Summary, frame_us: float | None) -> list[NameAndText]:
    return list(_provenance(record, summary, frame_us))


def _provenance(record: RunRecord, summary: Summary, frame_us: float | None) -> Iterator[NameAndText]:
    config, machine, workload = record.config, record.machine, record.workload
    if "parameters" in workload:
        parameters = pluralize(workload["parameters"], "parameter")
        yield (
            "workload",
            f"{workload['name']}: {parameters}, {workload['lanes_per_step']:,.0f} of them a step",
        )
    if config.get("script"):
        yield "script", f"{config['script']}: a process for each worker in each arm"
    if record.simulation is not None:
        yield "simulated", "the same P4 program and agents, with given costs and cables"
    if "servers" in config:
        hosts = _hosts(config["workers"], config["servers"])
        yield "network", f"{hosts}, {describe_network(config)}: {_switch(record, frame_us)}"
    if summary.vector is not None:
        parameters = pluralize(summary.vector, "parameter")
        yield "vector", f"the {parameters} that most mini-batches have, each step"
    elif "top_k" in config and has_hot_set(summary.reference.design):
        yield "hot set", _hot_set(config["top_k"], config.get("rule", "top-k"), summary)
    yield (
        "load",
        ", ".join(
            name if load.offered_rate is None else f"{name}: {load.offered_rate:,.1f} steps/s of all workers"
            for name, load in summary.loads.items()
        ),
    )
    arms = summary.arms.values()
    steps, rpcs = sum(arm.steps for arm in arms), sum(arm.rpcs_per_step * arm.steps for arm in arms)
    yield "measured", f"{pluralize(steps, 'step')}, some {rpcs:,.0f} RPCs"
    for name, text in machine_rows(record):
        yield f"machine {name}", text
    for name, text in link_rows(record):
        yield f"link of {name}", text
    fields = [machine[name] for name in ("system", "kernel", "cpu") if name in machine]
    if fields and record.simulation is None:
        cpus = f"{pluralize(machine['cpus'], 'CPU')}: " if "cpus" in machine else " "
        yield "machine", f"{cpus}{', '.join(fields)}".strip()
    if record.placement and not record.machines:
        yield (
            "placement",
            ", ".join(f"{name} on {_place(name, where, record)}" for name, where in record.placement.items()),
        )
    empty = summary.empty_rpc_latency_us
    if empty.p50 is not None and empty.p99 is not None:
        yield "emulator alone", f"an empty RPC takes {empty.p50:,.0f} µs (p50), {empty.p99:,.0f} µs (p99)"


def _hosts(workers: int, servers: int) -> str:
    return f"{pluralize(workers, 'worker')}, {pluralize(servers, 'parameter server')}"


def _hot_set(top_k: int, rule: str, summary: Summary) -> str:
    if rule == "top-k":
        text = f"the {pluralize(top_k, 'most updated parameter')} of a profile run"
    else:
        text = f"at most {pluralize(top_k, 'parameter')} that rule {rule} chose from a profile run"
    return text if summary.hot_part is None else f"{text}, {summary.hot_part:.1%} of all"


def _place(name: str, where: str, record: RunRecord) -> str:
    is_on_senders = name == "switch" and where == ANY and record.datapath == "kernel"
    return "its senders' CPUs" if is_on_senders else where


def what_was_logged(totals: LoggedTotals) -> list[NameAndText]:
    return [
        ("RPCs", f"{totals.rows:,} in {totals.seconds:,.1f} s"),
        ("network", _hosts(totals.workers, totals.servers)),
    ]


def how_to_read(summary: Summary, is_simulated: bool) -> list[str]:
    text = [f"{_operations_and_arms(summary)} {_differences(summary)}"]
    if is_simulated:
        return [*text, f"A difference is claimed, and coloured, where its interval excludes 0. {_colours()}"]
    loss = "log" if summary.reports is None else "reported"
    notes = " ".join(arm.note for arm in summary.run_arms if arm.note)
    return [
        *text,
        "A difference is claimed, and coloured, where its interval excludes 0 and it is larger than noise: "
        "farther from 0 than the interval of the arm that repeats the baseline, for the same metric at the "
        f"same load. {_colours()} Each claim stands alone. Noise can hide one difference, and disturbed "
        "blocks can rule out another, without touching the rest.",
        f"The mean {loss} loss is one number a run: an arm trains one model at all loads, so its rounds do "
        "not repeat the training. Arms do: those that keep their parameters in the same place train alike, "
        "and their spread gives the interval (Student's t).",
        *([notes] if notes else []),
    ]


def _colours() -> str:
    more = ", ".join(
        in_sentences(metric.label) for metric in metrics_of_table("differences") if metric.better == "more"
    )
    less = f"more is better for {more}, less for everything else" if more else "less is better for everything"
    return f"Green is better, red is worse; {less} that is compared here."


def _operations_and_arms(summary: Summary) -> str:
    if summary.reports is not None:
        return (
            "An operation is a pull or a push: a series of RPCs from the script's call to its last response. "
            "Each arm has its own processes of the script, and its own model. Outside its blocks an arm's "
            "calls wait; arms alternate in random order in each round. Within a block workers go as fast as "
            "they can, so an arm that answers sooner also has more to answer."
        )
    if summary.vector is None:
        return (
            "An operation is a pull or a push: a series of RPCs from its scheduled start to its last "
            "response. Every arm replays the same mini-batches at the same pace; arms alternate in random "
            "order in each round."
        )
    return (
        "A push adds up the vectors of all workers, from a worker's call to its last sum. So it includes the "
        "wait for the slowest. A pull reads the worker's own parameters, and sends nothing. An RPC is a "
        "packet and its answer. Every arm replays the same mini-batches as fast as it can; arms alternate in "
        "random order in each round."
    )


def _differences(summary: Summary) -> str:
    others = "".join(
        f", {confidence(summary, name)} {at_load(name)}"
        for name, load in summary.loads.items()
        if load.alpha != summary.alpha
    )
    return (
        "A difference is the geometric mean of the rounds' ratios, each round with one estimate an arm, so "
        "that a round in which the machine was slow counts no more than another. An interval "
        f"({confidence(summary)}{others}) comes from the signs of the rounds: the order is random, so where "
        "two arms are alike, each round is as likely to show one ahead as the other."
    )


def caveats(is_simulated: bool, has_machines: bool = False) -> list[str]:
    machine = (
        "Agents and P4 program are the real ones; what hosts and cables take is a model "
        "(packages/simulator/README.md)."
        if is_simulated
        else "The switch is software. Latencies are those of its machine and of the links, and where agents "
        "share its machine it costs them CPU time, which hardware would not."
        if has_machines
        else "Agents, switch and servers share this machine's CPUs. Latencies are those of an emulator, and "
        "the switch costs the agents CPU time, which hardware would not."
    )
    return [
        machine,
        "Values are 32-bit fixed point and a push adds in place (SGD); a Tofino has other limits.",
    ]


def glossary(arms: Sequence[Arm] = ()) -> list[NameAndText]:
    return [*((arm.name, f"the arm {arm.about}") for arm in arms), *_GLOSSARY.items()]
