from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.figures.model import Axis, Figure, Panel, Series
from studies.allreduce.breakdown import COLOURS, LINK_PARTS, PARTS
from studies.allreduce.numbers import Limit, Line, Numbers, TrainingRow
from studies.allreduce.schemes import scheme_of
from studies.allreduce.training import ARMS

_MILLIONS = 1e-6
_MIN_LOSS = 0.00001
"""Value drawn on a logarithmic axis for runs without loss."""


def figures_of(numbers: Numbers) -> Iterator[Figure]:
    n, workers = f"{numbers.values:,} values", f"{numbers.workers} workers"
    goodput = Axis("million values/s of a worker", is_log=True)
    yield Figure(
        "allreduce-workers", "Goodput against workers", Axis("workers", is_log=True), goodput,
        list(_panels(numbers.goodput_by_workers, _MILLIONS)),
        caption=f"An all-reduce of {n}; hosts take no time, and nothing is lost.",
    )  # fmt: skip
    yield Figure(
        "allreduce-packets", "Goodput against packet size", Axis("values of a packet"), goodput,
        list(_panels(numbers.goodput_by_packet, _MILLIONS)), kind="points",
        caption=f"{n}, {workers}. SwitchML has packets of 64 values here.",
    )  # fmt: skip
    yield Figure(
        "allreduce-loss", "Goodput against loss",
        Axis("share of the frames that are lost", is_log=True), goodput,
        list(_panels(numbers.goodput_by_loss, _MILLIONS)), kind="points",
        caption=f"{n}, {workers}. The leftmost points are without loss. Median of the seeds, and their "
        "range. What is lost is sent again after 20 ms or more, or as the published code does: SwitchML's "
        "after 1 ms, ATP's after 0.2 ms without any packet.",
    )  # fmt: skip
    yield Figure(
        "allreduce-taken", "Goodput beside another job",
        Axis("share of the switch's memory that the other job has"), goodput,
        list(_panels(numbers.goodput_by_taken, _MILLIONS)), kind="points",
        caption=f"{n}, {workers}. SwitchML cannot run without memory in the switch.",
    )  # fmt: skip
    yield Figure(
        "allreduce-length", "Time of an all-reduce against its length", Axis("values", is_log=True),
        Axis("ms", is_log=True), list(_panels(numbers.ms_by_length, 1.0)),
        caption=f"{workers}; hosts take no time, and nothing is lost.",
    )  # fmt: skip
    yield breakdown(numbers.limits, f"{n}, {workers}")
    yield from _courses(numbers.training)


def _panels(lines: Sequence[Line], scale: float) -> Iterator[Panel]:
    for gbit in dict.fromkeys(line.gbit for line in lines):
        yield Panel(f"{gbit:g} Gbit/s", [_series(line, scale) for line in lines if line.gbit == gbit])


def _series(line: Line, scale: float) -> Series:
    scheme = scheme_of(line.scheme)
    low, high = (None if each is None else scale * np.array(each) for each in (line.low, line.high))
    x = [each or _MIN_LOSS for each in line.x]
    return Series(line.scheme, np.array(x), scale * np.array(line.y), scheme.colour, scheme.dash, low, high)


def breakdown(limits: Sequence[Limit], what: str) -> Figure:
    panels = []
    for gbit in dict.fromkeys(limit.gbit for limit in limits):
        found = [limit for limit in limits if limit.gbit == gbit]
        names = [limit.scheme for limit in found]
        series = [
            Series(
                part, names, np.array([limit.parts_ms[part] / limit.payload_ms for limit in found]), colour
            )
            for part, colour in zip(PARTS, COLOURS, strict=True)
            if part in LINK_PARTS
        ]
        panels.append(Panel(f"{gbit:g} Gbit/s", series))
    return Figure(
        "allreduce-parts", "What the time of an all-reduce is made of", Axis("times the limit for values"),
        Axis(""), panels, kind="bars",
        caption=f"{what}; hosts take no time, and nothing is lost. The text below explains the parts.",
    )  # fmt: skip


def _courses(training: Sequence[TrainingRow]) -> Iterator[Figure]:
    for name, along, title in (
        ("allreduce-loss-steps", "step", "mini-batches of all workers"),
        ("allreduce-loss-time", "ms", "ms"),
    ):
        panels = []
        for question in dict.fromkeys(each.question for each in training):
            found = [each for each in training if each.question == question]
            panels.append(
                Panel(question, [
                    Series(
                        each.arm, np.array(each.loss_curve[along]), np.array(each.loss_curve["loss"]),
                        ARMS[each.arm].colour, dash=0 if each.waits else 2,
                    )
                    for each in found
                ])
            )  # fmt: skip
        yield Figure(
            name, f"Training R1's hot set: loss against {title}", Axis(title), Axis("log loss, nats"), panels,
            caption="Dotted: designs in which no worker waits for another.",
        )  # fmt: skip
