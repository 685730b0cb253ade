"""What the page explains: how to read it, and its words."""

from __future__ import annotations

READING = (
    "An operation is a pull or a push: a series of RPCs from its scheduled start to its last response. "
    "Every arm replays the same mini-batches at the same pace; arms alternate in random order in each "
    "round. A difference is the geometric mean of the rounds' ratios, each round with one estimate an "
    "arm, so that a round in which the machine was slow counts no more than another. An interval (95 %)"
    " is what the signs of the rounds allow: as the order is random, each round of an arm that is like "
    "neither is as likely above it as below.",
    "A difference is claimed, and coloured, where its interval leaves out 0 and it is farther from 0 than "
    "the interval of the arm again reaches, of the same metric at the same load. Green is better, red is "
    "worse; of all that is compared here less is better. Each claim stands for itself: what noise covers "
    "is not told apart, and what many disturbed blocks touch is not claimed; the rest stands.",
    "The mean log loss is of the run: an arm trains one model at all loads, and rounds are not repetitions "
    "of it. Arms are: those with their parameters in the same place train alike, and how far they are apart "
    "gives the interval (Student's t).",
    "The arm again is neither once more: its differences are noise, and show how much of it there is. "
    "The arm proxy should show nothing with few workers: its effect ([DDL] Fig. 9) needs hundreds of "
    "connections.",
)
READING_VIRTUAL_TIME = (
    READING[0],
    "A difference is claimed, and coloured, where its interval leaves out 0. Green is better, red is worse; "
    "of all that is compared here less is better.",
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
GLOSSARY = (
    ("lane", "one parameter's place in an RPC: a 64-bit key and a 32-bit value; an RPC has up to 32"),
    ("arm", "one way to run the same steps; on the wire an arm is a job of its own"),
    ("job", "a set of parameters with their own values, slots and table entries"),
    ("neither", "the arm with all parameters at the servers, and a connection for each worker"),
    ("again", "neither once more"),
    ("proxy", "the arm in which the switch is the workers' one connection to each server"),
    ("hot", "the arm in which the switch holds the hottest parameters"),
    ("both", "hot and proxy together"),
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
