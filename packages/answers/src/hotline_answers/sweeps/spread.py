"""Simulate the points of sweeps in parallel, and cache their results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hotline_answers.sweeps.plan import Point
from hotline_answers.sweeps.point import CachedPoint, fingerprint, simulate_point
from simulator.task_cache import Task, TaskProgress, run_cached

SweepResults = dict[tuple[str, str], CachedPoint]


def result_file(point: Point, folder: Path) -> Path:
    return folder / point.sweep / f"{point.name}.json"


def simulate_points(
    points: Sequence[Point], folder: Path, scheduler: str | None, processes: int, progress: TaskProgress
) -> SweepResults:
    tasks = [
        Task(
            f"{point.sweep} {point.name}", result_file(point, folder), fingerprint(point.config),
            point.config.model_dump_json(),
        )
        for point in points
    ]  # fmt: skip
    # This process creates the folder, and removes also the files of killed processes.
    with TemporaryDirectory(prefix="hotline-sweep-") if scheduler is None else nullcontext() as scratch:
        results = run_cached(
            partial(simulate_point, scratch=scratch), CachedPoint, tasks, scheduler, processes, progress
        )
    return {(point.sweep, point.name): result for point, result in zip(points, results, strict=True)}
