"""The study's numbers: a curve for each way to train, and the changes by offload for each budget."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from foundation.settings import Strict
from hosts.agent_config import CollectionSettings
from hotline_optimisers.offload import OffloadChanges
from hotline_optimisers.plan import ARMS, TITLES, OptimiserPlan, data_of, offload_jobs_of, tuning_jobs_of
from hotline_optimisers.point import OffloadPoint, OptimiserTrainingPoint
from hotline_optimisers.training import DataName, OptimiserTraining, OptimiserTrainingResult
from hotline_simulator.study import StudyProgress, run_points


class TrainingCurve(Strict):
    """A training at the learning rate that was best on the tuning part of the data."""

    data: DataName
    label: str
    learning_rate: float
    tried: dict[str, float]
    """Learning rate -> loss at the end of the tuning part."""
    is_edge: bool
    """Whether the rate is the largest or the smallest that was tried."""
    result: OptimiserTrainingResult


class MapPoint(Strict):
    hit_share: float
    budget: CollectionSettings
    worth: OffloadChanges


class OptimiserNumbers(Strict):
    curves: list[TrainingCurve]
    points: list[MapPoint]

    def curves_of(self, data: DataName) -> list[TrainingCurve]:
        return [each for each in self.curves if each.data == data]

    @property
    def data(self) -> list[DataName]:
        return [name for name in TITLES if self.curves_of(name)]


def run_plan(
    plan: OptimiserPlan, ratings: Path | None, folder: Path, scheduler: str | None, processes: int,
    progress: StudyProgress,
) -> OptimiserNumbers:  # fmt: skip
    """Run all points that have no cached result in `folder`/points; raise `DataError`."""
    data = data_of(plan, ratings)
    tuning_jobs = tuning_jobs_of(plan, data)
    options = (folder, scheduler, processes, progress)

    def train_all(jobs: Sequence[OptimiserTraining]) -> list[OptimiserTrainingResult]:
        points = [OptimiserTrainingPoint(job=job) for job in jobs]
        results = run_points(points, *options)
        return [results.of(point) for point in points]

    tunings = iter(zip(tuning_jobs, train_all(tuning_jobs), strict=True))
    # `tuning_jobs_of` orders jobs by data set, then arm, then learning rate.
    groups = [list(islice(tunings, len(plan.factors))) for _ in data for _ in ARMS]
    best_jobs = [min(group, key=lambda each: each[1].last_loss)[0] for group in groups]
    results = train_all([job.model_copy(update={"is_tuning": False}) for job in best_jobs])
    offload_points = [OffloadPoint(job=job) for job in offload_jobs_of(plan)]
    changes = run_points(offload_points, *options)
    labels = [arm.label for _ in data for arm in ARMS]
    return OptimiserNumbers(
        curves=[_curve(*each) for each in zip(groups, best_jobs, labels, results, strict=True)],
        points=[
            MapPoint(hit_share=each.job.hit_share, budget=each.job.budget, worth=changes.of(each))
            for each in offload_points
        ],
    )


def _curve(
    group: Sequence[tuple[OptimiserTraining, OptimiserTrainingResult]],
    best_job: OptimiserTraining,
    label: str,
    result: OptimiserTrainingResult,
) -> TrainingCurve:
    rates = [job.learning_rate for job, _ in group]
    return TrainingCurve(
        data=best_job.data.name,
        label=label,
        learning_rate=best_job.learning_rate,
        tried={f"{job.learning_rate:g}": each.last_loss for job, each in group},
        is_edge=best_job.learning_rate in (min(rates), max(rates)),
        result=result,
    )
