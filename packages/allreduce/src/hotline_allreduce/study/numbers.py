"""Run the points of a comparison, and compute the numbers of its figures and tables from their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from foundation.settings import Strict
from hotline_allreduce.study.breakdown import parts_of
from hotline_allreduce.study.fair import fair_tables
from hotline_allreduce.study.memory import Memory, memories
from hotline_allreduce.study.plan import (
    GBITS,
    AllReducePlan,
    breakdown_points,
    fair_points,
    make_point,
    model_of,
    model_points,
    points_by_length,
    points_by_loss,
    points_by_occupied_share,
    points_by_size,
    points_by_workers,
    points_of,
    sharing_points,
    trainings,
)
from hotline_allreduce.study.point import AllReducePoint, SharingPoint
from hotline_allreduce.study.schemes import SCHEMES, WITH_PUBLISHED_TIMERS, Scheme
from hotline_simulator.study import Results, StudyProgress, run_points

LEARNED_MARGIN = 0.1  # share of the difference between the loss of an untrained model and the best loss


class Line(Strict):
    scheme: str
    gbit: float
    x: list[float]
    y: list[float]
    low: list[float] | None = None  # range of the seeds, if there are several
    high: list[float] | None = None


class FairGoodput(Strict):
    """A row of the tables with published parameters, or with equal bytes in flight."""

    table: str
    scheme: str
    chunk_size: int
    window: int  # packets in flight
    goodput: dict[float, float]
    """Values/s of a worker, by Gbit/s."""


class Limit(Strict):
    scheme: str
    gbit: float
    workers: int
    servers: int
    values: int
    ms: float
    """Time of the all-reduce if hosts take no time."""
    payload_ms: float
    """Lower limit by the transmission of the values alone."""
    limit_ms: float
    """Lower limit with headers, acknowledgements, preambles and gaps."""
    parts_ms: dict[str, float]
    """Time of each part, including the parts by hosts and loss; the sum is `whole_ms`."""
    whole_ms: float


class LinkBytes(Strict):
    """Frame bytes per value on every link."""

    scheme: str
    workers: int
    servers: int
    chunk_size: int
    worker_up: float
    worker_down: float
    server_up: float
    server_down: float


class TrainingRow(Strict):
    question: str
    arm: str
    waits: bool  # whether workers wait for each other
    steps_per_s: float
    step_us: float
    bytes_per_step: float
    packets_per_step: float
    server_packets_per_step: float
    last_loss: float
    ms_to_loss: float | None
    """Time until the loss was first at most `loss`; None if never."""
    loss: float
    """Loss at which a model counts as trained in this question."""
    loss_curve: dict[str, list[float]]


class ModelStep(Strict):
    scheme: str
    gbit: float
    workers: int
    model: str
    compute_ms: float
    all_reduce_ms: float
    after_ms: float
    """Time of a step whose all-reduce begins after computing."""
    beside_ms: float
    """Time of a step whose all-reduce overlaps with backward as far as possible."""


class JobsRow(Strict):
    """Jobs that share a switch: each list has an element for each number of jobs."""

    question: str
    scheme: str
    slots: int
    """Slots or cells of the switch that the jobs have."""
    jobs: list[int]
    goodput: list[float]
    """Mean values/s of a worker."""
    in_switch: list[float]
    """Share of the packets, or of the hot set's updates, that the switch adds up."""
    fairness: list[float]  # Jain's index


class AllReduceNumbers(Strict):
    values: int
    workers: int
    goodput_by_workers: list[Line]
    """Values/s of a worker, as in the next three fields."""
    goodput_by_packet: list[Line]
    goodput_by_loss: list[Line]
    goodput_by_taken: list[Line]
    fair: list[FairGoodput]
    ms_by_length: list[Line]
    octets: list[LinkBytes]
    limits: list[Limit]
    memory: list[Memory]
    training: list[TrainingRow]
    headlines: list[ModelStep]
    jobs: list[JobsRow]


def run_plan(
    plan: AllReducePlan, folder: Path, scheduler: str | None, processes: int, progress: StudyProgress
) -> AllReduceNumbers:
    """Run a plan's points that have no cached result in `folder`/points, and compute the numbers."""
    return numbers_of(plan, run_points(points_of(plan), folder, scheduler, processes, progress))


def numbers_of(plan: AllReducePlan, results: Results) -> AllReduceNumbers:
    curves = [(scheme, gbit) for gbit in GBITS for scheme in SCHEMES]
    return AllReduceNumbers(
        values=plan.values,
        workers=make_point(plan, SCHEMES[0], GBITS[0]).workers,
        goodput_by_workers=[
            _line(scheme, gbit, points_by_workers(plan, scheme, gbit), "workers", results)
            for scheme, gbit in curves
        ],
        goodput_by_packet=[
            _line(scheme, gbit, points_by_size(plan, scheme, gbit), "chunk_size", results)
            for scheme, gbit in curves
        ],
        goodput_by_loss=[
            _loss_line(scheme, gbit, points_by_loss(plan, scheme, gbit), results)
            for gbit in GBITS
            for scheme in (*SCHEMES, *WITH_PUBLISHED_TIMERS)
        ],
        goodput_by_taken=[
            Line(
                scheme=scheme.name, gbit=gbit, x=list(points),
                y=[results.of(each).values_per_s for each in points.values()],
            )
            for scheme, gbit in curves
            if (points := points_by_occupied_share(plan, scheme, gbit))
        ],
        fair=fair_goodputs(plan, results),
        ms_by_length=[
            Line(
                scheme=scheme.name, gbit=gbit,
                x=[float(each.values) for each in points_by_length(plan, scheme, gbit)],
                y=[1e3 * results.of(each).seconds for each in points_by_length(plan, scheme, gbit)],
            )
            for scheme, gbit in curves
        ],
        octets=[
            LinkBytes(scheme=scheme.name, **results.of(each).model_dump(include={*LinkBytes.model_fields}))
            for scheme in SCHEMES
            for each in points_by_size(plan, scheme, GBITS[0])
        ],
        limits=[
            _limit(scheme, gbit, breakdown_points(plan, scheme, gbit), results) for scheme, gbit in curves
        ],
        memory=memories(),
        training=[each for question in trainings(plan) for each in _training_rows(plan, question, results)],
        headlines=[each for scheme, gbit in curves for each in _model_steps(plan, scheme, gbit, results)],
        jobs=[
            _jobs_row(question, row, results)
            for question, rows in sharing_points(plan).items()
            for row in rows
        ],
    )  # fmt: skip


def fair_goodputs(plan: AllReducePlan, results: Results) -> list[FairGoodput]:
    return [
        FairGoodput(
            table=table, scheme=row.scheme.name, chunk_size=row.scheme.subject.chunk_size, window=row.window,
            goodput={gbit: results.of(each).values_per_s for gbit, each in fair_points(plan, row).items()},
        )
        for table, rows in fair_tables().items()
        for row in rows
    ]  # fmt: skip


def _line(
    scheme: Scheme, gbit: float, points: Sequence[AllReducePoint], x_field: str, results: Results
) -> Line:
    return Line(
        scheme=scheme.name, gbit=gbit,
        x=[float(getattr(each, x_field)) for each in points],
        y=[results.of(each).values_per_s for each in points],
    )  # fmt: skip


def _loss_line(
    scheme: Scheme, gbit: float, points: Sequence[Sequence[AllReducePoint]], results: Results
) -> Line:
    sorted_rates = [sorted(results.of(each).values_per_s for each in seeds) for seeds in points]
    return Line(
        scheme=scheme.name, gbit=gbit,
        x=[seeds[0].loss for seeds in points],
        y=[each[len(each) // 2] for each in sorted_rates],  # the medians
        low=[each[0] for each in sorted_rates],
        high=[each[-1] for each in sorted_rates],
    )  # fmt: skip


def _limit(scheme: Scheme, gbit: float, points: Mapping[str, AllReducePoint], results: Results) -> Limit:
    runs = {name: results.of(point) for name, point in points.items()}
    latency_run, parts = runs["latency"], parts_of(points["latency"], runs)
    return Limit(
        scheme=scheme.name, gbit=gbit, workers=latency_run.workers, servers=latency_run.servers,
        values=latency_run.values, ms=1e3 * latency_run.seconds, payload_ms=1e3 * latency_run.payload_limit_s,
        limit_ms=1e3 * latency_run.limit_s,
        parts_ms={name: 1e3 * seconds for name, seconds in parts.items()},
        whole_ms=1e3 * runs["loss"].seconds,
    )  # fmt: skip


def _training_rows(plan: AllReducePlan, question: str, results: Results) -> list[TrainingRow]:
    jobs = trainings(plan)[question]
    trainings_by_arm = {job.arm: results.of(job) for job in jobs}
    best_loss = min(each.last_loss for each in trainings_by_arm.values())
    untrained_loss = next(iter(trainings_by_arm.values())).chance_loss
    loss = best_loss + LEARNED_MARGIN * (untrained_loss - best_loss)
    return [
        TrainingRow(
            question=question, arm=arm, last_loss=each.last_loss, ms_to_loss=each.ms_to_loss(loss), loss=loss,
            **each.model_dump(include={*TrainingRow.model_fields}),
        )
        for arm, each in trainings_by_arm.items()
    ]  # fmt: skip


def _jobs_row(question: str, row: Sequence[SharingPoint], results: Results) -> JobsRow:
    shared_results = [results.of(point) for point in row]
    return JobsRow(
        question=question, scheme=row[0].scheme, slots=row[0].slots, jobs=[point.jobs for point in row],
        goodput=[each.mean for each in shared_results], in_switch=[each.in_switch for each in shared_results],
        fairness=[each.fairness for each in shared_results],
    )  # fmt: skip


def _model_steps(plan: AllReducePlan, scheme: Scheme, gbit: float, results: Results) -> list[ModelStep]:
    model = model_of(plan)
    steps = []
    for point in model_points(plan, scheme, gbit):
        assert model is not None
        all_reduce_ms, compute_ms = 1e3 * results.of(point).seconds, model.step_us / 1e3
        steps.append(
            ModelStep(
                scheme=scheme.name, gbit=gbit, workers=point.workers, model=model.label,
                compute_ms=compute_ms, all_reduce_ms=all_reduce_ms, after_ms=compute_ms + all_reduce_ms,
                beside_ms=max(compute_ms, model.before_backward_us / 1e3 + all_reduce_ms),
            )
        )  # fmt: skip
    return steps
