"""The points of a comparison, by question, at 10 and 100 Gbit/s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from foundation.designs import hotset
from hotline_allreduce.study.fair import FairRow, fair_tables
from hotline_allreduce.study.point import AllReducePoint, AllReduceTrainingPoint, NetworkPoint, SharingPoint
from hotline_allreduce.study.schemes import SCHEMES, WITH_PUBLISHED_TIMERS, Scheme, SwitchMemory
from hotline_allreduce.study.training import ARMS
from hotline_dense.catalogue import DenseModel, open_model

GBITS = (10.0, 100.0)
BASE_WORKERS, LAYER_WORKERS = 8, 4
"""Numbers of workers; LAYER_WORKERS reduce the gradients of a table of layers."""
LOSSES = (0.0, 0.0001, 0.001, 0.01)
BREAKDOWN_LOSS = 0.001
SIZES = (64, 128, 256, 360)
"""Values per packet; a design with a fixed packet size is simulated with that size only."""
OCCUPIED_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
VALUE_BYTES = 4
TRAINING_SERVERS = 2
COMPUTE_US, STRAGGLER_FACTOR = 1_000.0, 4.0  # compute time of a step; factor of the straggler's compute time
SHARING_GBIT, SHARING_WORKERS = 100.0, 4
"""Bandwidth of cables, and workers of each job, for jobs that share a switch."""
SLOTS = (20_000, 2_000, 500, 128, 0)
"""Slots or cells that are left for the jobs that share a switch."""
VECTOR_FACTOR = 10
"""Length of a vector, as a multiple of the values that a worker pushes to a hot set."""
# Questions of jobs that share a switch: the resource for which they compete.
MEMORY, UPLINK = "the switch's memory", "one uplink"


@dataclass(frozen=True, slots=True)
class AllReducePlan:
    workers: tuple[int, ...]  # numbers of workers
    values: int  # length of the vector unless a question varies it
    lengths: tuple[int, ...]  # numbers of values
    seeds: int  # number of seeds of an all-reduce with lost frames
    steps: int  # steps of each worker in a training
    jobs: tuple[int, ...]  # numbers of jobs that share a switch
    shared_values: int
    """Length of the vector of each job that shares a switch."""
    model: str | None
    """Table of layers whose gradients are reduced as one vector; None leaves it out."""


FULL = AllReducePlan(
    workers=(2, 4, 8, 16, 32), values=500_000, lengths=(1_000, 10_000, 100_000, 1_000_000), seeds=3,
    steps=100, jobs=(1, 2, 4, 8), shared_values=200_000, model="resnet50",
)  # fmt: skip
QUICK = AllReducePlan(
    workers=(2, 8, 32), values=100_000, lengths=(1_000, 10_000, 100_000), seeds=1, steps=40,
    jobs=(1, 4), shared_values=40_000, model=None,
)  # fmt: skip


def make_point(plan: AllReducePlan, scheme: Scheme, gbit: float, **changes: object) -> AllReducePoint:
    point = AllReducePoint(
        scheme=scheme.name, gbit=gbit, workers=BASE_WORKERS, values=plan.values,
        chunk_size=scheme.subject.chunk_size,
    )  # fmt: skip
    return point.model_copy(update=changes)


def points_by_workers(plan: AllReducePlan, scheme: Scheme, gbit: float) -> list[AllReducePoint]:
    return [make_point(plan, scheme, gbit, workers=workers) for workers in plan.workers]


def points_by_size(plan: AllReducePlan, scheme: Scheme, gbit: float) -> list[AllReducePoint]:
    smallest, largest = scheme.subject.chunk_sizes
    has_fixed_size = smallest == largest
    sizes = (largest,) if has_fixed_size else SIZES
    return [make_point(plan, scheme, gbit, chunk_size=size) for size in sizes]


def points_by_loss(plan: AllReducePlan, scheme: Scheme, gbit: float) -> list[list[AllReducePoint]]:
    """Return all-reduces by share of lost frames, one for each seed; checked schemes have one seed."""
    seeds = range(1, (1 if scheme.is_checked else plan.seeds) + 1)
    return [
        [
            make_point(plan, scheme, gbit, loss=loss, seed=seed)
            for seed in (seeds if loss else (1,))  # without loss all seeds have the same result
        ]
        for loss in LOSSES
    ]


def points_by_occupied_share(plan: AllReducePlan, scheme: Scheme, gbit: float) -> dict[float, AllReducePoint]:
    """Return all-reduces with another job at the switch, by that job's share of its memory.

    Schemes without switch memory have the same all-reduce for all shares; schemes that require memory have
    none for a share of 1. Empty for a checked scheme, which sends the same frames as the unchecked scheme.
    """
    if scheme.is_checked:
        return {}
    if scheme.memory is SwitchMemory.NONE:
        return dict.fromkeys(OCCUPIED_SHARES, make_point(plan, scheme, gbit))
    shares = OCCUPIED_SHARES if scheme.memory is SwitchMemory.OPTIONAL else OCCUPIED_SHARES[:-1]
    return {share: make_point(plan, scheme, gbit, occupied=share) for share in shares}


def points_by_length(plan: AllReducePlan, scheme: Scheme, gbit: float) -> list[AllReducePoint]:
    return [make_point(plan, scheme, gbit, values=values) for values in plan.lengths]


def breakdown_points(plan: AllReducePlan, scheme: Scheme, gbit: float) -> dict[str, AllReducePoint]:
    return {
        "no-latency": make_point(plan, scheme, gbit, has_latency=False),
        "latency": make_point(plan, scheme, gbit),
        "host-costs": make_point(plan, scheme, gbit, hosts="measured"),
        "loss": make_point(plan, scheme, gbit, hosts="measured", loss=BREAKDOWN_LOSS),
    }


def fair_points(plan: AllReducePlan, row: FairRow) -> dict[float, AllReducePoint]:
    """Return all-reduces with a row's packets and window, by bandwidth."""
    return {gbit: make_point(plan, row.scheme, gbit, window=row.window) for gbit in GBITS}


def model_of(plan: AllReducePlan) -> DenseModel | None:
    return None if plan.model is None else open_model(plan.model)


def model_points(plan: AllReducePlan, scheme: Scheme, gbit: float) -> list[AllReducePoint]:
    model = model_of(plan)
    if model is None or scheme.is_checked:
        return []
    values = model.layers.bytes // VALUE_BYTES
    # `max_values` is None for a scheme without a limit.
    if values > (scheme.subject.max_values or values):
        return []
    return [make_point(plan, scheme, gbit, values=values, workers=LAYER_WORKERS)]


def trainings(plan: AllReducePlan) -> dict[str, list[AllReduceTrainingPoint]]:
    common = {"workers": BASE_WORKERS, "servers": TRAINING_SERVERS, "steps": plan.steps}

    def points(gbit: float, **settings: object) -> list[AllReduceTrainingPoint]:
        return [
            AllReduceTrainingPoint.model_validate({"arm": arm, "gbit": gbit, **common, **settings})
            for arm in ARMS
        ]

    return {
        "10 Gbit/s": points(10),
        "100 Gbit/s": points(100),
        "10 Gbit/s, with the agents' measured time": points(10, hosts="measured"),
        f"10 Gbit/s, computing {COMPUTE_US:,.0f} µs a step": points(10, compute_us=COMPUTE_US),
        f"the same, one worker {STRAGGLER_FACTOR:g} times as slow": points(
            10, compute_us=COMPUTE_US, straggler=STRAGGLER_FACTOR
        ),
    }


def sharing_points(plan: AllReducePlan) -> dict[str, list[list[SharingPoint]]]:
    """Return rows of points by the resource that jobs share; a row has a point for each number of jobs."""
    schemes = {each.name: each.memory for each in SCHEMES if not each.is_checked}
    schemes[hotset.NAME] = SwitchMemory.OPTIONAL

    def row(scheme: str, **resource: object) -> list[SharingPoint]:
        return [
            SharingPoint.model_validate(
                {
                    "scheme": scheme, "gbit": SHARING_GBIT, "jobs": jobs, "workers": SHARING_WORKERS,
                    "values": plan.shared_values // (VECTOR_FACTOR if scheme == hotset.NAME else 1),
                    **resource,
                }
            )
            for jobs in plan.jobs
        ]  # fmt: skip

    return {
        MEMORY: [
            row(name, slots=slots)
            for name, memory in schemes.items()
            for slots in (SLOTS if memory is SwitchMemory.OPTIONAL else SLOTS[:-1])  # the last is 0
            if memory is not SwitchMemory.NONE
        ],
        UPLINK: [row(name, has_one_uplink=True) for name in schemes],
    }


def points_of(plan: AllReducePlan) -> list[NetworkPoint]:
    """Return each point once, the longest first, to keep all processes busy until the end."""
    points: Iterator[NetworkPoint] = chain(
        _reduction_points(plan), *trainings(plan).values(), *chain(*sharing_points(plan).values())
    )
    unique = {point.name: point for point in points}
    return sorted(unique.values(), key=lambda point: -point.cost)


def _reduction_points(plan: AllReducePlan) -> Iterator[AllReducePoint]:
    for scheme in SCHEMES:
        for gbit in GBITS:
            points: tuple[Iterable[AllReducePoint], ...] = (
                points_by_workers(plan, scheme, gbit), points_by_size(plan, scheme, gbit),
                *points_by_loss(plan, scheme, gbit),
                points_by_occupied_share(plan, scheme, gbit).values(), points_by_length(plan, scheme, gbit),
                breakdown_points(plan, scheme, gbit).values(),
                model_points(plan, scheme, gbit),
            )  # fmt: skip
            yield from chain(*points)
    for row in chain(*fair_tables().values()):
        yield from fair_points(plan, row).values()
    for scheme in WITH_PUBLISHED_TIMERS:
        for gbit in GBITS:
            yield from chain(*points_by_loss(plan, scheme, gbit))
