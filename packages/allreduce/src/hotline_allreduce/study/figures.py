from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.figures.model import Axis, Figure, Panel, Series
from foundation.designs import hotset
from hotline_allreduce.study.breakdown import COLOURS, LINK_PARTS, PARTS
from hotline_allreduce.study.numbers import AllReduceNumbers, JobsRow, Limit, Line, TrainingRow
from hotline_allreduce.study.plan import MEMORY
from hotline_allreduce.study.schemes import scheme_of
from hotline_allreduce.study.training import ARMS

_TO_MILLIONS = 1e-6
_SOLID, _DOTTED = 0, 2  # indices in `DASHES`
_MIN_LOSS = 0.00001  # drawn on a logarithmic axis for runs without loss


def figures_of(numbers: AllReduceNumbers) -> Iterator[Figure]:
    length, workers = f"{numbers.values:,} values", f"{numbers.workers} workers"
    goodput = Axis("million values/s of a worker", is_log=True)
    yield Figure(
        "allreduce-workers", "Goodput against workers", Axis("workers", is_log=True), goodput,
        list(_panels(numbers.goodput_by_workers, _TO_MILLIONS)),
        caption=f"An all-reduce of {length}; hosts take no time, and nothing is lost.",
    )  # fmt: skip
    yield Figure(
        "allreduce-packets", "Goodput against packet size", Axis("values of a packet"), goodput,
        list(_panels(numbers.goodput_by_packet, _TO_MILLIONS)), kind="points",
        caption=f"{length}, {workers}. SwitchML has packets of 64 values here.",
    )  # fmt: skip
    yield Figure(
        "allreduce-loss", "Goodput against loss",
        Axis("share of the frames that are lost", is_log=True), goodput,
        list(_panels(numbers.goodput_by_loss, _TO_MILLIONS)), kind="points",
        caption=f"{length}, {workers}. The leftmost points are without loss. Median of the seeds, and their "
        "range. Lost packets are sent again after 20 ms or more, or after the published time-outs: "
        "in SwitchML 1 ms, in ATP 0.2 ms without any packet.",
    )  # fmt: skip
    yield Figure(
        "allreduce-taken", "Goodput with another job at the switch",
        Axis("share of the switch's memory that the other job has"), goodput,
        list(_panels(numbers.goodput_by_taken, _TO_MILLIONS)), kind="points",
        caption=f"{length}, {workers}. SwitchML cannot run without memory in the switch.",
    )  # fmt: skip
    yield Figure(
        "allreduce-length", "Time of an all-reduce against its length", Axis("values", is_log=True),
        Axis("ms", is_log=True), list(_panels(numbers.ms_by_length, 1.0)),
        caption=f"{workers}; hosts take no time, and nothing is lost.",
    )  # fmt: skip
    for name, title, column, axis in (
        ("jobs", "Goodput of jobs that share a switch", "goodput", goodput),
        ("jobs-switch", "What the switch adds up for jobs that share it", "in_switch",
         Axis("share of the packets or updates", is_share=True, limits=(0, 1))),
    ):  # fmt: skip
        yield Figure(
            f"allreduce-{name}", title, Axis("jobs"), axis,
            list(_jobs_panels(numbers.jobs, column)),
            caption="Jobs of 4 workers at 100 Gbit/s, by the slots or cells of the switch that they share. "
            "In the last panel all workers share one uplink, and the memory is no limit.",
        )  # fmt: skip
    yield breakdown_figure(numbers.limits, f"{length}, {workers}")
    yield from _loss_curves(numbers.training)


def _panels(lines: Sequence[Line], scale: float) -> Iterator[Panel]:
    for gbit in dict.fromkeys(line.gbit for line in lines):
        yield Panel(f"{gbit:g} Gbit/s", [_series(line, scale) for line in lines if line.gbit == gbit])


def _series(line: Line, scale: float) -> Series:
    scheme = scheme_of(line.scheme)
    low, high = (None if each is None else scale * np.array(each) for each in (line.low, line.high))
    x = [each or _MIN_LOSS for each in line.x]  # on other axes a 0 moves too little to be seen
    return Series(line.scheme, np.array(x), scale * np.array(line.y), scheme.colour, scheme.dash, low, high)


def _jobs_panels(rows: Sequence[JobsRow], column: str) -> Iterator[Panel]:
    for question, slots in dict.fromkeys((row.question, row.slots) for row in rows):
        yield Panel(f"{slots:,} slots" if question == MEMORY else question, [
            Series(
                row.scheme, np.array(row.jobs, np.float64),
                np.array(getattr(row, column)) * (_TO_MILLIONS if column == "goodput" else 1),
                hotset.OFFLOAD.colour if row.scheme == hotset.NAME else scheme_of(row.scheme).colour,
                _SOLID if row.scheme == hotset.NAME else scheme_of(row.scheme).dash,
            )
            for row in rows if (row.question, row.slots) == (question, slots)
        ])  # fmt: skip


def breakdown_figure(limits: Sequence[Limit], subject: str) -> Figure:
    panels = []
    for gbit in dict.fromkeys(limit.gbit for limit in limits):
        limits_at_rate = [limit for limit in limits if limit.gbit == gbit]
        names = [limit.scheme for limit in limits_at_rate]
        series = [
            Series(
                part,
                names,
                np.array([limit.parts_ms[part] / limit.payload_ms for limit in limits_at_rate]),
                colour,
            )
            for part, colour in zip(PARTS, COLOURS, strict=True)
            if part in LINK_PARTS
        ]
        panels.append(Panel(f"{gbit:g} Gbit/s", series))
    return Figure(
        "allreduce-parts", "What the time of an all-reduce is made of", Axis("times the limit for values"),
        Axis(""), panels, kind="bars",
        caption=f"{subject}; hosts take no time, and nothing is lost. The text below explains the parts.",
    )  # fmt: skip


def _loss_curves(training: Sequence[TrainingRow]) -> Iterator[Figure]:
    for name, column, title in (
        ("allreduce-loss-steps", "step", "mini-batches of all workers"),
        ("allreduce-loss-time", "ms", "ms"),
    ):
        panels = [
            Panel(question, [
                Series(
                    each.arm, np.array(each.loss_curve[column]), np.array(each.loss_curve["loss"]),
                    ARMS[each.arm].colour, dash=_SOLID if each.waits else _DOTTED,
                )
                for each in training if each.question == question
            ])
            for question in dict.fromkeys(each.question for each in training)
        ]  # fmt: skip
        yield Figure(
            name, f"Training R1's hot set: loss against {title}", Axis(title), Axis("log loss, nats"), panels,
            caption="Dotted: designs in which no worker waits for another.",
        )  # fmt: skip
