"""Points side by side, on processes of this machine or on a cluster; what is done is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from simulator.sweeps.plan import Point
from simulator.sweeps.point import Done, do_point, fingerprint
from simulator.task_cache import Progress, Task, run_cached

Results = dict[tuple[str, str], Done]
"""By sweep and point."""


def file_of(point: Point, folder: Path) -> Path:
    """Where its result is kept."""
    return folder / point.sweep / f"{point.name}.json"


def do_points(
    points: Sequence[Point], folder: Path, scheduler: str | None, processes: int, progress: Progress
) -> Results:
    """Simulate what is left of them, each into its file as soon as it is done.

    `scheduler` is the address of a dask.distributed cluster that has this project; None is so many processes
    here. Raises `ClusterError`, and the error of the first point that fails.
    """
    tasks = [
        Task(
            f"{point.sweep} {point.name}", file_of(point, folder), fingerprint(point.config),
            point.config.model_dump_json(),
        )
        for point in points
    ]  # fmt: skip
    with ExitStack() as opened:
        # Ours, as a process that is killed leaves what it has written.
        here = scheduler is None
        scratch = opened.enter_context(TemporaryDirectory(prefix="hotline-sweep-")) if here else None
        done = run_cached(partial(do_point, scratch=scratch), Done, tasks, scheduler, processes, progress)
    return {(point.sweep, point.name): each for point, each in zip(points, done, strict=True)}
