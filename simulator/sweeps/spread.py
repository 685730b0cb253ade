"""Points side by side, on processes of this machine or on a cluster; what is done is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from foundation.cluster import side_by_side
from foundation.logs.parts import write_into_folder
from simulator.sweeps.plan import Point
from simulator.sweeps.point import Done, do_point, made_of

Progress = Callable[[int, int, str], None]
"""Told how many points are done, of how many, and which was the latest."""
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
    found = {(point.sweep, point.name): done for point in points if (done := _kept(point, folder))}
    left = [point for point in points if (point.sweep, point.name) not in found]
    progress(len(found), len(points), "")
    if left:
        for point, text in _spread(left, scheduler, min(processes, len(left))):
            write_into_folder(file_of(point, folder), text + "\n")
            found[point.sweep, point.name] = Done.model_validate_json(text)
            progress(len(found), len(points), f"{point.sweep} {point.name}")
    return found


def _kept(point: Point, folder: Path) -> Done | None:
    """What was done before, of the same configuration and by the same code."""
    try:
        done = Done.model_validate_json(file_of(point, folder).read_bytes())
    except (OSError, ValidationError):
        return None
    return done if done.made_of == made_of(point.config) else None


def _spread(points: Sequence[Point], scheduler: str | None, processes: int) -> Iterator[tuple[Point, str]]:
    with ExitStack() as opened:
        # Ours, as a process that is killed leaves what it has written.
        here = scheduler is None
        scratch = opened.enter_context(TemporaryDirectory(prefix="hotline-sweep-")) if here else None
        tasks = [(point.config.model_dump_json(), scratch) for point in points]
        for number, text in side_by_side(do_point, tasks, scheduler, processes):
            yield points[number], text
