"""What the page explains: how to read it, and its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.metrics import shown_in
from analysis.summary import Summary
from foundation.designs.interface import Arm

_PACED = (
    "An operation is a pull or a push: a series of RPCs from its scheduled start to its last response. "
    "Every arm replays the same mini-batches at the same pace; arms alternate in random order in each round."
)
_SCRIPT = (
    "An operation is a pull or a push: a series of RPCs from the script's call to its last response. "
    "Each arm has its own processes of the script, and its own model. Outside its blocks an arm's calls "
    "wait; arms alternate in random order in each round. Within a block workers go as fast as they can, so "
    "an arm that answers sooner also has more to answer."
)
_LOCKSTEP = (
    "A push adds up the vectors of all workers, from a worker's call to its last sum. So it includes the "
    "wait for the slowest. A pull reads the worker's own parameters, and sends nothing. An RPC is a packet "
    "and its answer. Every arm replays the same mini-batches as fast as it can; arms alternate in random "
    "order in each round."
)
_DIFFERENCES = (
    " A difference is the geometric mean of the rounds' ratios, each round with one estimate an "
    "arm, so that a round in which the machine was slow counts no more than another. An interval (95 %)"
    " comes from the signs of the rounds: the order is random, so where two arms are alike, each round is "
    "as likely to show one ahead as the other."
)
_CLAIMED = "A difference is claimed, and coloured, where its interval excludes 0"
_NULL = (
    " and it is larger than noise: farther from 0 than the interval of the arm that repeats the baseline, "
    "for the same metric at the same load"
)
_EACH = (
    " Each claim stands alone. Noise can hide one difference, and disturbed blocks can rule out another, "
    "without touching the rest."
)
_LEARNING = (
    "The mean log loss is one number a run: an arm trains one model at all loads, so its rounds do not "
    "repeat the training. Arms do: those that keep their parameters in the same place train alike, and their "
    "spread gives the interval (Student's t)."
)
READING_LOGS = (
    "This report shows logs that were given to it. Nothing was run, and there is nothing to compare with. "
    "Distributions are exact at a hundred edges a decade.",
)
_VALUES = "Values are 32-bit fixed point and a push adds in place (SGD); a Tofino has other limits."
CAVEATS = (
    "Agents, switch and servers share this machine's CPUs. Latencies are those of an emulator, and the "
    "switch costs the agents CPU time, which hardware would not.",
    _VALUES,
)
CAVEATS_OF_VIRTUAL_TIME = (
    "Agents and P4 program are the real ones; what hosts and cables take is a model (docs/simulator.md).",
    _VALUES,
)
_GLOSSARY = (
    ("lane", "one parameter's place in an RPC: a 64-bit key and a 32-bit value; an RPC has up to 32"),
    ("arm", "one way to run the same steps; on the wire an arm is a job of its own"),
    ("job", "a set of parameters with their own values, slots and table entries"),
    ("all-hit, mixed, cold", "RPCs that the switch answers alone, serves in part, and passes on"),
    ("load", "offered steps/s, as a fraction of the lowest capacity of all arms, measured in a closed loop"),
    ("W_proc", "worker: processing the response"),
    ("W_queue", "worker: the response's wait in the receive queue"),
    ("PS_proc", "server: processing the request"),
    ("PS_queue", "server: the request's wait in the receive queue"),
    ("N_tx", "network and network stack: t1 − t0 − PS_queue − PS_proc"),
    (
        "[DDL]",
        "Pan et al., Dissecting the Communication Latency in Distributed Deep Sparse Learning, IMC 2020",
    ),
)


def reading(summary: Summary, is_virtual: bool) -> list[str]:
    """How to read the differences of a run."""
    arms, is_script = summary.run_arms, summary.reports is not None
    operations = _SCRIPT if is_script else _PACED if summary.vector is None else _LOCKSTEP
    first = f"{operations}{_DIFFERENCES}"
    more = [metric.spoken for metric in shown_in("differences") if metric.better == "more"]
    of = f"more is better of {', '.join(more)}; of all else" if more else "of all"
    colours = f"Green is better, red is worse; {of} that is compared here less is better."
    if is_virtual:
        return [first, f"{_CLAIMED}. {colours}"]
    notes = " ".join(arm.note for arm in arms if arm.note)
    learning = _LEARNING.replace("log loss", "reported loss") if is_script else _LEARNING
    return [first, f"{_CLAIMED}{_NULL}. {colours}{_EACH}", learning, *filter(None, [notes])]


def glossary(arms: Sequence[Arm] = ()) -> Iterator[tuple[str, str]]:
    """Words of the page, the arms that are on it first."""
    yield from ((arm.name, f"the arm {arm.about}") for arm in arms)
    yield from _GLOSSARY
