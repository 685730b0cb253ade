"""Tasks side by side, on processes of this machine or on a cluster; what is done is kept, and not done
again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from foundation.cluster import side_by_side
from foundation.logs.parts import write_into_folder
from foundation.settings import Strict

Progress = Callable[[int, int, str], None]
"""Told how many tasks are done, of how many, and which was the latest."""


class Made(Strict):
    """What is in a task's file."""

    made_of: str
    """A digest of all that the result depends on."""


D = TypeVar("D", bound=Made)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done once."""

    name: str
    """As progress tells it."""
    file: Path
    """Where its result is kept."""
    made_of: str
    text: str
    """What the function gets."""


def keep(
    function: Callable[[str], str], kind: type[D], tasks: Sequence[Task], scheduler: str | None,
    processes: int, progress: Progress,
) -> list[D]:  # fmt: skip
    """The result of each task, of what is left of them each into its file as soon as it is done.

    `function` makes JSON of a task's text. `scheduler` is the address of a dask.distributed cluster that has
    this project; None is so many processes here. Raises `ClusterError`, and the error of the first task that
    fails.
    """
    found = {task.file: done for task in tasks if (done := _kept(kind, task))}
    left = [task for task in tasks if task.file not in found]
    progress(len(found), len(tasks), "")
    if left:
        texts = [(task.text,) for task in left]
        for number, text in side_by_side(function, texts, scheduler, min(processes, len(left))):
            task = left[number]
            write_into_folder(task.file, text + "\n")
            found[task.file] = kind.model_validate_json(text)
            progress(len(found), len(tasks), task.name)
    return [found[task.file] for task in tasks]


def _kept(kind: type[D], task: Task) -> D | None:
    """What was done before, of the same things and by the same code."""
    try:
        done = kind.model_validate_json(task.file.read_bytes())
    except (OSError, ValidationError):
        return None
    return done if done.made_of == task.made_of else None
