"""Trainings and runs as tasks, whose results are cached by settings, data and code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter

from foundation.designs import collect
from foundation.designs.interface import Design
from foundation.import_graph import digest_of
from foundation.settings import Strict
from hotline_allreduce.study.point import host_costs, make_network
from hotline_optimisers.offload import Offload, OffloadChanges, simulate_changes
from hotline_optimisers.training import PLACEMENTS, OptimiserTraining, OptimiserTrainingResult, train
from simulator.costs import HostCosts, Network
from simulator.task_cache import CachedResult, Task, TaskProgress, run_cached

_LINK_GBIT = 10.0


class OptimiserTrainingPoint(Strict):
    kind: Literal["train"] = "train"
    job: OptimiserTraining

    @property
    def name(self) -> str:
        job, part = self.job, "tuning" if self.job.is_tuning else "reported"
        budget_suffix = "" if job.budget is None else f"-{job.budget.staleness_ms:g}ms"
        return f"{job.data.name}-{job.way}{budget_suffix}-{job.learning_rate:g}-{part}"

    @property
    def design(self) -> Design:
        return PLACEMENTS[self.job.way].design

    def run(self) -> OptimiserTrainingResult:
        return train(self.job, make_network(_LINK_GBIT), host_costs("measured"))


class OffloadPoint(Strict):
    kind: Literal["simulate"] = "simulate"
    job: Offload

    @property
    def name(self) -> str:
        return f"offload-{self.job.hit_share:g}-{self.job.budget.staleness_ms:g}ms"

    @property
    def design(self) -> Design:
        return collect.DESIGN

    def run(self) -> OffloadChanges:
        return simulate_changes(self.job)


Point = OptimiserTrainingPoint | OffloadPoint
_POINT: TypeAdapter[Point] = TypeAdapter(Point)


ResultT = TypeVar("ResultT", OptimiserTrainingResult, OffloadChanges)


class OptimiserPointResult(CachedResult):
    result: OptimiserTrainingResult | OffloadChanges


def fingerprint(point: Point) -> str:
    modules = (point.job.__module__, "simulator.costs", *point.design.modules)
    texts = (each.model_dump_json() for each in (point, Network(), HostCosts()))
    hasher = hashlib.sha256(" ".join([digest_of(point.design.program, modules), *texts]).encode())
    if isinstance(point, OptimiserTrainingPoint) and point.job.data.file is not None:
        hasher.update(point.job.data.file.read_bytes())
    return hasher.hexdigest()[:16]


def run_point(point_json: str) -> str:
    """Run a point, given as JSON, and return its result as JSON."""
    point = _POINT.validate_json(point_json)
    return OptimiserPointResult(fingerprint=fingerprint(point), result=point.run()).model_dump_json()


def run_points(
    result_class: type[ResultT], points: Sequence[Point], folder: Path, scheduler: str | None, processes: int,
    progress: TaskProgress,
) -> list[ResultT]:  # fmt: skip
    """Run points, or take their results from `folder`/points."""
    tasks = [
        Task(each.name, folder / "points" / f"{each.name}.json", fingerprint(each), each.model_dump_json())
        for each in points
    ]
    results = run_cached(run_point, OptimiserPointResult, tasks, scheduler, processes, progress)
    return [each.result for each in results if isinstance(each.result, result_class)]
