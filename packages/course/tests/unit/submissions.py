"""Submissions for tests: copies of an exercise's folder, with a solution, the skeleton, or other code."""

from __future__ import annotations

import shutil
from pathlib import Path

from hotline_course.exercise import COURSE

SOLUTIONS = Path(__file__).parents[1] / "solutions"
EXERCISES = sorted(folder.name for folder in COURSE.glob("[0-9]*"))


def submit(folder: Path, exercise: str, *, is_solved: bool = True, **files: str) -> Path:
    """Copy an exercise into a folder, with its solution or not, and with other text for some files.

    `files` are named without their suffix: `forward_p4="..."` is `forward.p4`.
    """
    shutil.copytree(COURSE / exercise, folder, ignore=shutil.ignore_patterns("__pycache__"))
    if is_solved:
        shutil.copytree(SOLUTIONS / exercise, folder, dirs_exist_ok=True)
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text)
    return folder
