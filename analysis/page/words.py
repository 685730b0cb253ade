"""What the page explains: how to read it, and its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.metrics import shown_in
from foundation.designs.interface import Arm

_DIFFERENCES = (
    "An operation is a pull or a push: a series of RPCs from its scheduled start to its last response. "
    "Every arm replays the same mini-batches at the same pace; arms alternate in random order in each "
    "round. A difference is the geometric mean of the rounds' ratios, each round with one estimate an "
    "arm, so that a round in which the machine was slow counts no more than another. An interval (95 %)"
    " is what the signs of the rounds allow: as the order is random, each round of an arm that is like "
    "the one it is compared with is as likely above it as below."
)
_CLAIMED = "A difference is claimed, and coloured, where its interval leaves out 0"
_NULL = (
    " and it is farther from 0 than the interval of an arm reaches that only repeats the baseline, of the "
    "same metric at the same load"
)
_EACH = (
    " Each claim stands for itself: what noise covers is not told apart, and what many disturbed blocks "
    "touch is not claimed; the rest stands."
)
_LEARNING = (
    "The mean log loss is of the run: an arm trains one model at all loads, and rounds are not repetitions "
    "of it. Arms are: those with their parameters in the same place train alike, and how far they are apart "
    "gives the interval (Student's t)."
)
READING_LOGS = (
    "These are somebody's own logs: nothing was run for this report, and there is nothing to compare "
    "with. Distributions are exact at a hundred edges a decade.",
)
_VALUES = "Values are 32-bit fixed point and a push adds in place (SGD); a Tofino has other limits."
CAVEATS = (
    "Agents, switch and servers share this machine's CPUs: latencies are those of an emulator, and what"
    " the switch does costs its senders, where hardware would not.",
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
    ("load", "offered steps/s, as a part of what the arm that carries least does in a closed loop"),
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


def reading(arms: Sequence[Arm], is_virtual: bool) -> list[str]:
    """How to read the differences of a run of these arms."""
    more = [metric.spoken for metric in shown_in("differences") if metric.better == "more"]
    of = f"more is better of {', '.join(more)}; of all else" if more else "of all"
    colours = f"Green is better, red is worse; {of} that is compared here less is better."
    if is_virtual:
        return [_DIFFERENCES, f"{_CLAIMED}. {colours}"]
    notes = " ".join(arm.note for arm in arms if arm.note)
    return [_DIFFERENCES, f"{_CLAIMED}{_NULL}. {colours}{_EACH}", _LEARNING, *filter(None, [notes])]


def glossary(arms: Sequence[Arm] = ()) -> Iterator[tuple[str, str]]:
    """Words of the page, the arms that are on it first."""
    yield from ((arm.name, f"the arm {arm.about}") for arm in arms)
    yield from _GLOSSARY
