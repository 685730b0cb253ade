from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from controller.dask_cluster import run_in_parallel
from foundation.logs.parts import make_folder, write_into_folder
from foundation.settings import Strict

TaskProgress = Callable[[int, int, str], None]  # results so far, tasks, name of the latest task


class CachedResult(Strict):
    fingerprint: str
    """Digest of everything that the result depends on: sources, settings, inputs."""


D = TypeVar("D", bound=CachedResult)


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    file: Path
    fingerprint: str
    text: str  # input of the function that computes the result


def run_cached(
    function: Callable[[str], str], result_class: type[D], tasks: Sequence[Task], scheduler: str | None,
    processes: int, progress: TaskProgress,
) -> list[D]:  # fmt: skip
    """Run the tasks without a cached result, cache each result when it is available, and return all results.

    `function` maps a task's text to its result as JSON. `scheduler` is the address of a dask.distributed
    cluster whose workers have this project; None runs `processes` processes on this machine. Raises
    `ClusterError` if no process can run tasks, `DataError` before the first task if a folder of results
    cannot be made, and otherwise the error of the first task that fails.
    """
    results = {task.file: result for task in tasks if (result := _read_cached(result_class, task))}
    remaining_tasks = [task for task in tasks if task.file not in results]
    progress(len(results), len(tasks), "")
    for folder in {task.file.parent for task in remaining_tasks}:
        make_folder(folder)
    if remaining_tasks:
        texts = [(task.text,) for task in remaining_tasks]
        for task_number, text in run_in_parallel(
            function, texts, scheduler, min(processes, len(remaining_tasks))
        ):
            task = remaining_tasks[task_number]
            write_into_folder(task.file, text + "\n")
            results[task.file] = result_class.model_validate_json(text)
            progress(len(results), len(tasks), task.name)
    return [results[task.file] for task in tasks]


def _read_cached(result_class: type[D], task: Task) -> D | None:
    try:
        result = result_class.model_validate_json(task.file.read_bytes())
    except (OSError, ValidationError):
        return None
    return result if result.fingerprint == task.fingerprint else None
