"""Trainings and runs as tasks, whose results are cached by settings, data and code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter

from foundation.designs import collect
from foundation.designs.interface import Design
from foundation.settings import Strict
from simulator.costs import Hosts, Network
from simulator.import_graph import digest_of
from simulator.switch_state import modules_of
from simulator.task_cache import CachedResult, Task, TaskProgress, run_cached
from studies.allreduce.point import host_costs, make_network
from studies.optimisers.offload import Offload, OffloadChanges, simulate_changes
from studies.optimisers.training import PLACEMENTS, Training, TrainingResult, train

_GBIT = 10.0


class TrainingPoint(Strict):
    kind: Literal["train"] = "train"
    job: Training

    @property
    def design(self) -> Design:
        return PLACEMENTS[self.job.way].design

    def run(self) -> TrainingResult:
        return train(self.job, make_network(_GBIT), host_costs("measured"))


class OffloadPoint(Strict):
    kind: Literal["simulate"] = "simulate"
    job: Offload

    @property
    def design(self) -> Design:
        return collect.DESIGN

    def run(self) -> OffloadChanges:
        return simulate_changes(self.job)


Point = TrainingPoint | OffloadPoint
_POINT: TypeAdapter[Point] = TypeAdapter(Point)


class CachedTraining(CachedResult):
    result: TrainingResult


class CachedOffloadChanges(CachedResult):
    result: OffloadChanges


def fingerprint(point: Point) -> str:
    code = digest_of(
        point.design.program, (point.job.__module__, "simulator.costs", *modules_of(point.design))
    )
    hash_input = " ".join(
        [code, point.model_dump_json(), Network().model_dump_json(), Hosts().model_dump_json()]
    )
    hasher = hashlib.sha256(hash_input.encode())
    if isinstance(point, TrainingPoint) and point.job.data.file is not None:
        hasher.update(point.job.data.file.read_bytes())
    return hasher.hexdigest()[:16]


def run_point(point_json: str) -> str:
    """Run a point, given as JSON, and return its result as JSON."""
    point = _POINT.validate_json(point_json)
    if isinstance(point, TrainingPoint):
        return CachedTraining(fingerprint=fingerprint(point), result=point.run()).model_dump_json()
    return CachedOffloadChanges(fingerprint=fingerprint(point), result=point.run()).model_dump_json()


CachedT = TypeVar("CachedT", CachedTraining, CachedOffloadChanges)


def run_points(
    kind: type[CachedT], points: Sequence[Point], folder: Path, scheduler: str | None, processes: int,
    progress: TaskProgress,
) -> list[CachedT]:  # fmt: skip
    """Run points, or take their results from `folder`/points."""
    tasks = [_task_of(point, folder) for point in points]
    return run_cached(run_point, kind, tasks, scheduler, processes, progress)


def _task_of(point: Point, folder: Path) -> Task:
    point_json, name = point.model_dump_json(), _name_of(point)
    return Task(name, folder / "points" / f"{name}.json", fingerprint(point), point_json)


def _name_of(point: Point) -> str:
    if isinstance(point, TrainingPoint):
        job, part = point.job, "tuning" if point.job.is_tuning else "reported"
        budget_suffix = "" if job.budget is None else f"-{job.budget.staleness_ms:g}ms"
        return f"{job.data.name}-{job.way}{budget_suffix}-{job.learning_rate:g}-{part}"
    return f"offload-{point.job.hit_share:g}-{point.job.budget.staleness_ms:g}ms"
