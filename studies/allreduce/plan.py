"""What is done: the points of each question, at 10 and 100 Gbit/s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from studies.allreduce.contenders import CONTENDERS, Contender
from studies.allreduce.point import Point, Reduce, Train
from studies.allreduce.training import ARMS
from studies.dense.catalogue import Model, open_model

GBITS = (10.0, 100.0)
BASE_WORKERS, LAYER_WORKERS = 8, 4
"""The second of the table of layers, whose vector is long."""
LOSSES = (0.0, 0.0001, 0.001, 0.01)
LOSS_IN_PARTS = 0.001
"""Where the time of an all-reduce is told by its parts."""
SIZES = (64, 128, 256, 360)
"""Values of a packet, as far as a design takes them."""
VALUE_BYTES = 4
TRAINING_SERVERS = 2
COMPUTE_US, STRAGGLER = 1_000.0, 4.0
"""Where one worker is slow: what a step computes, and how much longer it takes that worker."""
PARTS = ("near", "far", "ours", "lossy")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of it."""

    workers: tuple[int, ...]
    values: int
    """Of a vector, where it is not said otherwise."""
    lengths: tuple[int, ...]
    """Of vectors, where time is told against them."""
    seeds: int
    """Under loss."""
    steps: int
    """Of each worker that trains."""
    model: str | None
    """A table of layers whose gradients are added up as one vector; None: no such vector."""


FULL = Plan((2, 4, 8, 16, 32), 500_000, (1_000, 10_000, 100_000, 1_000_000), 3, 100, "resnet50")
QUICK = Plan((2, 8, 32), 100_000, (1_000, 10_000, 100_000), 1, 40, None)


def base(plan: Plan, of: Contender, gbit: float) -> Reduce:
    """An all-reduce that others differ from in one thing."""
    return Reduce(
        contender=of.name, gbit=gbit, workers=BASE_WORKERS, values=plan.values,
        chunk_size=of.subject.chunk_size,
    )  # fmt: skip


def with_(point: Reduce, **changes: object) -> Reduce:
    """Another in that."""
    return point.model_copy(update=changes)


def by_workers(plan: Plan, of: Contender, gbit: float) -> list[Reduce]:
    """Along the number of workers."""
    return [with_(base(plan, of, gbit), workers=workers) for workers in plan.workers]


def by_size(plan: Plan, of: Contender, gbit: float) -> list[Reduce]:
    """Along the values of a packet."""
    least, most = of.subject.chunk_sizes
    return [with_(base(plan, of, gbit), chunk_size=size) for size in SIZES if least <= size <= most]


def by_loss(plan: Plan, of: Contender, gbit: float) -> list[list[Reduce]]:
    """Along the share of frames that are lost, with each seed; what differs by a check alone has one."""
    seeds = range(1, (1 if of.is_checked else plan.seeds) + 1)
    return [
        [with_(base(plan, of, gbit), loss=loss, seed=seed) for seed in (seeds if loss else (1,))]
        for loss in LOSSES
    ]


def by_length(plan: Plan, of: Contender, gbit: float) -> list[Reduce]:
    """Along the length of the vector."""
    return [with_(base(plan, of, gbit), values=values) for values in plan.lengths]


def in_parts(plan: Plan, of: Contender, gbit: float) -> dict[str, Reduce]:
    """The same all-reduce where less and less is left out, by `PARTS`."""
    far = base(plan, of, gbit)
    ours = with_(far, hosts="ours")
    found = (with_(far, is_far=False), far, ours, with_(ours, loss=LOSS_IN_PARTS))
    return dict(zip(PARTS, found, strict=True))


def layers_of(plan: Plan) -> Model | None:
    """The table of layers."""
    return None if plan.model is None else open_model(plan.model)


def of_layers(plan: Plan, of: Contender, gbit: float) -> list[Reduce]:
    """All gradients of a table of layers as one vector; a check changes no frame, and is left out."""
    model = layers_of(plan)
    if model is None or of.is_checked:
        return []
    values = model.layers.bytes // VALUE_BYTES
    return [with_(base(plan, of, gbit), values=values, workers=LAYER_WORKERS)]


def trainings(plan: Plan) -> dict[str, list[Train]]:
    """What is asked -> the jobs of all arms."""

    def jobs(gbit: float, hosts: str = "ideal", compute_us: float = 0.0, slow: float = 1.0) -> list[Train]:
        return [
            Train.model_validate(
                {
                    "arm": arm, "gbit": gbit, "workers": BASE_WORKERS, "servers": TRAINING_SERVERS,
                    "steps": plan.steps, "hosts": hosts, "compute_us": compute_us, "straggler": slow,
                }
            )
            for arm in ARMS
        ]  # fmt: skip

    return {
        "10 Gbit/s": jobs(10),
        "100 Gbit/s": jobs(100),
        "10 Gbit/s, with what our agents take": jobs(10, "ours"),
        f"10 Gbit/s, computing {COMPUTE_US:,.0f} µs a step": jobs(10, "ideal", COMPUTE_US),
        f"the same, one worker {STRAGGLER:g} times as slow": jobs(10, "ideal", COMPUTE_US, STRAGGLER),
    }


def points_of(plan: Plan) -> list[Point]:
    """All of them once, those that take longest first, so that none is left to the end alone."""
    every: Iterator[Point] = chain(_reductions(plan), *trainings(plan).values())
    found = {point.name: point for point in every}
    return sorted(found.values(), key=lambda point: -point.cost)


def _reductions(plan: Plan) -> Iterator[Reduce]:
    for of in CONTENDERS:
        for gbit in GBITS:
            many: tuple[Iterable[Reduce], ...] = (
                by_workers(plan, of, gbit), by_size(plan, of, gbit), *by_loss(plan, of, gbit),
                by_length(plan, of, gbit), in_parts(plan, of, gbit).values(), of_layers(plan, of, gbit),
            )  # fmt: skip
            yield from chain(*many)
