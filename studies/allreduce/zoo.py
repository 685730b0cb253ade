"""Do what is left of a plan, and make its page."""

from __future__ import annotations

from pathlib import Path

from foundation.logs.errors import DataError, reason_of
from simulator.task_cache import Progress, run_cached
from studies.allreduce.numbers import Numbers, numbers_of
from studies.allreduce.plan import Plan, points_of
from studies.allreduce.point import Done, do_point, task_of


def do_plan(plan: Plan, folder: Path, scheduler: str | None, processes: int, progress: Progress) -> Numbers:
    """Each point's result is in `folder`/points as soon as it is done, and is not done again.

    Raises `DataError` where there can be no such folder, `ClusterError`, and the error of the first point
    that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {reason_of(error)}") from error
    points = points_of(plan)
    tasks = [task_of(point, folder) for point in points]
    done = run_cached(do_point, Done, tasks, scheduler, processes, progress)
    return numbers_of(plan, {point.name: each.result for point, each in zip(points, done, strict=True)})
