from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from controller.dask_cluster import run_in_parallel
from foundation.logs.parts import write_into_folder
from foundation.settings import Strict

TaskProgress = Callable[[int, int, str], None]


class CachedResult(Strict):
    fingerprint: str
    """Digest of everything that the result depends on: sources, settings, inputs."""


D = TypeVar("D", bound=CachedResult)


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    file: Path
    fingerprint: str
    text: str


def run_cached(
    function: Callable[[str], str], kind: type[D], tasks: Sequence[Task], scheduler: str | None,
    processes: int, progress: TaskProgress,
) -> list[D]:  # fmt: skip
    """Run the tasks without a cached result, cache each result as soon as it is there, and return all.

    `function` makes JSON of a task's text. `scheduler` is the address of a dask.distributed cluster whose
    workers have this project; None runs `processes` processes on this machine. Raises `ClusterError`, and the
    error of the first task that fails.
    """
    found = {task.file: result for task in tasks if (result := _cached(kind, task))}
    remaining = [task for task in tasks if task.file not in found]
    progress(len(found), len(tasks), "")
    if remaining:
        texts = [(task.text,) for task in remaining]
        for number, text in run_in_parallel(function, texts, scheduler, min(processes, len(remaining))):
            task = remaining[number]
            write_into_folder(task.file, text + "\n")
            found[task.file] = kind.model_validate_json(text)
            progress(len(found), len(tasks), task.name)
    return [found[task.file] for task in tasks]


def _cached(kind: type[D], task: Task) -> D | None:
    try:
        result = kind.model_validate_json(task.file.read_bytes())
    except (OSError, ValidationError):
        return None
    return result if result.fingerprint == task.fingerprint else None
