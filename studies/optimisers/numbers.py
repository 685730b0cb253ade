"""The study's numbers: a curve for each way to train, and the changes by offload for each budget."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from foundation.errors import DataError, reason_of
from foundation.settings import Strict
from hosts.config import Collection
from simulator.task_cache import TaskProgress
from studies.optimisers.offload import OffloadChanges
from studies.optimisers.plan import ARMS, TITLES, Plan, data_of, offload_jobs_of, tuning_jobs_of
from studies.optimisers.point import (
    CachedOffloadChanges,
    CachedTraining,
    OffloadPoint,
    TrainingPoint,
    run_points,
)
from studies.optimisers.training import DataName, Training, TrainingResult


class Curve(Strict):
    """A training at the learning rate that was best on the tuning part of the data."""

    data: DataName
    label: str
    learning_rate: float
    tried: dict[str, float]
    """Learning rate -> loss at the end of the tuning part."""
    is_edge: bool
    """Whether the rate is the largest or the smallest that was tried."""
    result: TrainingResult


class MapPoint(Strict):
    hit_share: float
    budget: Collection
    worth: OffloadChanges


class Numbers(Strict):
    curves: list[Curve]
    points: list[MapPoint]

    def curves_of(self, data: DataName) -> list[Curve]:
        return [each for each in self.curves if each.data == data]

    @property
    def data(self) -> list[DataName]:
        return [name for name in TITLES if self.curves_of(name)]


def run_plan(
    plan: Plan, ratings: Path | None, folder: Path, scheduler: str | None, processes: int,
    progress: TaskProgress,
) -> Numbers:  # fmt: skip
    """Run all points that have no cached result in `folder`/points; raise `DataError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {reason_of(error)}") from error
    data = data_of(plan, ratings)
    tuning_jobs = tuning_jobs_of(plan, data)
    tuning_points = run_points(
        CachedTraining,
        [TrainingPoint(job=job) for job in tuning_jobs],
        folder,
        scheduler,
        processes,
        progress,
    )
    groups = _group_by_curve(tuning_jobs, [point.result for point in tuning_points], len(plan.factors))
    best_jobs = [min(group, key=lambda each: each[1].last_loss)[0] for group in groups]
    reporting_points = run_points(
        CachedTraining,
        [TrainingPoint(job=job.model_copy(update={"is_tuning": False})) for job in best_jobs],
        folder, scheduler, processes, progress,
    )  # fmt: skip
    offload_jobs = offload_jobs_of(plan)
    offload_points = run_points(
        CachedOffloadChanges,
        [OffloadPoint(job=job) for job in offload_jobs],
        folder,
        scheduler,
        processes,
        progress,
    )
    return Numbers(
        curves=[
            _curve(group, job, label, point.result)
            for group, job, label, point in zip(
                groups, best_jobs, [arm.label for _ in data for arm in ARMS], reporting_points, strict=True
            )
        ],
        points=[
            MapPoint(hit_share=job.hit_share, budget=job.budget, worth=point.result)
            for job, point in zip(offload_jobs, offload_points, strict=True)
        ],
    )


_TuningResults = list[tuple[Training, TrainingResult]]


def _group_by_curve(
    jobs: Sequence[Training], results: Sequence[TrainingResult], size: int
) -> list[_TuningResults]:
    pairs = iter(zip(jobs, results, strict=True))
    return [list(islice(pairs, size)) for _ in range(len(jobs) // size)]


def _curve(group: _TuningResults, best_job: Training, label: str, result: TrainingResult) -> Curve:
    rates = [job.learning_rate for job, _ in group]
    return Curve(
        data=best_job.data.name,
        label=label,
        learning_rate=best_job.learning_rate,
        tried={f"{job.learning_rate:g}": each.last_loss for job, each in group},
        is_edge=best_job.learning_rate in (min(rates), max(rates)),
        result=result,
    )
