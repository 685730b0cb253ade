"""Exercises of a course, and the files of a submission."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from foundation.checkout import ROOT
from hotline_course.errors import CannotCheck, SubmissionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COURSE = ROOT / "examples" / "course"
DESCRIPTION = "exercise.toml"
_SUFFIXES = (".p4", ".py")
_MAX_FILE_BYTES, _MAX_FILES = 256_000, 16
# Windows has the last of these only, and other systems the first two.
_OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class Exercise(NamedTuple):
    """An exercise in the lecturer's folder, whose tests and parameters are trusted."""

    folder: Path
    name: str
    program: str | None
    """The P4 file that a submission has; None for an exercise in Python alone."""
    module: str | None
    """The Python file that a submission has; None for an exercise in P4 alone."""

    def tests(self) -> list[tuple[str, Callable[..., None]]]:
        """Return the names and the functions of the tests, in the order of their file."""
        files = sorted(self.folder.glob("test_*.py"))
        named = [each for file in files for each in vars(load_module(file)).items()]
        return [(name, value) for name, value in named if name.startswith("test_") and callable(value)]

    # `Any`: each exercise has its own type of parameters.
    def parameters(self, seed: int) -> Any:
        """Return what the seed makes of the exercise."""
        return load_module(self.folder / "parameters.py").parameters(seed)


def open_exercise(folder: Path) -> Exercise:
    """Read an exercise's description; raise `CannotCheck` if it has none."""
    description = _read_description(folder)
    return Exercise(folder, folder.name, description.get("program"), description.get("module"))


def find_exercise(submission: Path, course: Path, name: str | None = None) -> Exercise:
    """Return the exercise of a submission's folder, by `name` or by the folder's description.

    Raises `CannotCheck` if the course has no such exercise.
    """
    name = name or str(_read_description(submission).get("name"))
    names = sorted(each.parent.name for each in course.glob(f"*/{DESCRIPTION}"))
    if name not in names:
        known = ", ".join(names) or "none"
        raise CannotCheck(
            f"{submission / DESCRIPTION}: expected an exercise of {course} ({known}), got {name!r}"
        )
    return open_exercise(course / name)


def submission_files(folder: Path) -> dict[str, bytes]:
    """Return the P4 and Python files of a submission, but its tests and parameters.

    Raises `SubmissionError` for a file that is too large or not a regular file.
    """
    names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIXES) and not _is_courses(name))
    if len(names) > _MAX_FILES:
        raise SubmissionError(f"expected at most {_MAX_FILES} files, got {len(names)}")
    return {name: _read_regular_file(folder / name) for name in names}


def _is_courses(name: str) -> bool:
    return name.startswith("test_") or name in ("conftest.py", "parameters.py")


def _read_regular_file(path: Path) -> bytes:
    """Read a file without following a link or waiting for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    except OSError as error:
        raise SubmissionError(f"{path.name}: expected a regular file ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SubmissionError(f"{path.name}: expected a regular file")
    with open(descriptor, "rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise SubmissionError(f"{path.name}: expected at most {_MAX_FILE_BYTES:,} bytes")
    return data


# `Any`: values of TOML.
def _read_description(folder: Path) -> Mapping[str, Any]:
    path = folder / DESCRIPTION
    if not path.exists():
        raise CannotCheck(f"{folder}: expected a file {DESCRIPTION}, which names the exercise")
    try:
        return tomllib.loads(_read_regular_file(path).decode())
    except (SubmissionError, ValueError, RecursionError) as error:
        raise CannotCheck(f"{path}: {error}") from None


def submissions_in(folder: Path) -> Iterator[Path]:
    """Yield a folder with a submission, or else its folders, of which one or more are submissions."""
    if not folder.is_dir():
        raise CannotCheck(f"{folder}: expected a folder with a submission")
    inner = [
        each for each in sorted(folder.iterdir()) if each.is_dir() and not each.name.startswith((".", "_"))
    ]
    if not (folder / DESCRIPTION).exists() and any((each / DESCRIPTION).exists() for each in inner):
        yield from inner
    else:
        yield folder


def load_module(path: Path) -> ModuleType:
    """Import a file of the course under a name that no other file has."""
    name = f"hotline_course_file_{path.parent.name}_{path.stem}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CannotCheck(f"{path}: expected a Python file of the course")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
