"""Checks of submissions: the exercise's tests, with parameters of seeds, in this process.

Only the submission's own code runs in child processes. This one gives it frames and arguments, compares what
comes back, and counts the points.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from hotline_course.errors import CannotCheck, SubmissionError, message_of
from hotline_course.exercise import Exercise, find_exercise, submission_files
from hotline_course.in_process import NO_FORK, SubmissionInProcess, can_fork
from hotline_course.limits import DEFAULT, Limits
from hotline_course.points import CheckResult, SubmissionResult, points_of
from hotline_course.process import INTERRUPTED, SubmissionProcess
from hotline_course.remote import SubmittedModule, SubmittedSwitch
from hotline_course.settings import DEFAULT_SETTINGS, PUBLISHED_SEED, CheckSettings
from hotline_course.text import printable
from hotline_course.todos import remaining_todos

_Call = Callable[..., None]


class Submission(AbstractContextManager["Submission"]):
    """The processes of a submission, which tests use by the names of their arguments.

    Raises `SubmissionError` if the submission's files cannot be used.
    """

    def __init__(
        self, exercise: Exercise, folder: Path, hidden: Sequence[Path] = (), limits: Limits = DEFAULT
    ) -> None:
        self._stack = ExitStack()
        self._folder, self._files = folder, submission_files(folder)
        self._names = [name for name in (exercise.program, exercise.module) if name is not None]
        self._hidden, self._limits = hidden, limits
        self._p4 = self._open("p4", exercise.program)
        try:
            self._python = self._open("python", exercise.module)
        except BaseException:
            self.close()
            raise

    def _open(self, kind: str, main: str | None) -> SubmissionProcess | SubmissionInProcess | None:
        if main is None:
            return None
        if main not in self._files:
            raise SubmissionError(f"{main}: expected this file in the folder")
        if not can_fork():
            return self._stack.enter_context(SubmissionInProcess(kind, self._folder / main))
        process = SubmissionProcess(kind, main, self._files, hidden=self._hidden, limits=self._limits)
        return self._stack.enter_context(process)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    @property
    def not_isolated(self) -> str:
        return next((each.not_isolated for each in (self._p4, self._python) if each is not None), "")

    def switch(self) -> SubmittedSwitch:
        """Return a new switch that runs the submission's program."""
        if self._p4 is None:
            raise CannotCheck("expected an exercise with a P4 program")
        return SubmittedSwitch(self._p4)

    def module(self) -> SubmittedModule:
        if self._python is None:
            raise CannotCheck("expected an exercise with a Python module")
        return SubmittedModule(self._python)

    def todos(self) -> list[str]:
        """Return the skeleton's TODO comments that are still in the program and the module."""
        return remaining_todos(self._files, self._names)

    def load(self) -> None:
        """Compile the program, and import the module."""
        if self._p4 is not None:
            self.switch()
        if self._python is not None:
            self.module().load()


def check_submission(
    folder: Path,
    course: Path,
    *,
    seed: int = PUBLISHED_SEED,
    name: str | None = None,
    hidden: Sequence[Path] = (),
    limits: Limits = DEFAULT,
) -> SubmissionResult:
    """Check a folder; what it is `hidden` from are folders of other submissions."""
    found, shown = name or "?", printable(str(folder))
    try:
        exercise = find_exercise(folder, course, name)
        found = exercise.name
        tests = exercise.tests()
        try:
            submission = Submission(exercise, folder, hidden, limits)
        except SubmissionError as error:
            return SubmissionResult(shown, found, _all_lost(tests, printable(str(error))))
        with submission:
            checks = _check(exercise, submission, tests, sorted({PUBLISHED_SEED, seed}))
            todos = [printable(each) for each in submission.todos()]
            return SubmissionResult(shown, found, checks, "", submission.not_isolated, todos)
    except (CannotCheck, OSError) as error:
        return SubmissionResult(shown, found, problem=printable(message_of(error)))


def _check(
    exercise: Exercise, submission: Submission, tests: Sequence[tuple[str, _Call]], seeds: Sequence[int]
) -> list[CheckResult]:
    first = _timed("loads", 1, lambda: _reason_of(submission.load))
    if first.reason:
        return [first, *_all_lost(tests, "see the first reason")[1:]]
    return [first, *(_run(exercise, submission, name, test, seeds) for name, test in tests)]


def _all_lost(tests: Sequence[tuple[str, _Call]], reason: str) -> list[CheckResult]:
    lost = [CheckResult(_title(name), points_of(test), "see the first reason", 0.0) for name, test in tests]
    return [CheckResult("loads", 1, reason, 0.0), *lost]


def _run(
    exercise: Exercise, submission: Submission, name: str, test: _Call, seeds: Sequence[int]
) -> CheckResult:
    def reason() -> str:
        for seed in seeds:
            if found := _reason_of(partial(_call, test, exercise, submission, seed)):
                return found if seed == PUBLISHED_SEED else f"with seed {seed}: {found}"
        return ""

    return _timed(_title(name), points_of(test), reason)


def _call(test: _Call, exercise: Exercise, submission: Submission, seed: int) -> None:
    given: dict[str, Callable[[], object]] = {
        "parameters": lambda: exercise.parameters(seed),
        "switch": submission.switch,
        "make_switch": lambda: submission.switch,
        "module": submission.module,
    }
    names = inspect.signature(test).parameters
    if unknown := names.keys() - given.keys():
        raise CannotCheck(f"{test.__name__}: expected arguments of {', '.join(given)}, got {unknown.pop()!r}")
    test(**{name: given[name]() for name in names})


def _reason_of(action: Callable[[], object]) -> str:
    """Return why an action fails, or "". Values of a submission may raise any exception in a test."""
    try:
        action()
    except CannotCheck:
        raise
    except AssertionError as error:
        return printable(str(error)) or "an assertion of the test failed"
    except Exception as error:
        return printable(f"the test could not use the submission's values: {type(error).__name__}: {error}")
    return ""


def _timed(name: str, points: int, reason: Callable[[], str]) -> CheckResult:
    begin_s = time.monotonic()
    found = reason()
    return CheckResult(name, points, found, time.monotonic() - begin_s)


def _title(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def check_batch(
    folders: Sequence[Path],
    course: Path,
    settings: CheckSettings = DEFAULT_SETTINGS,
) -> list[SubmissionResult]:
    """Check folders in parallel; no child process sees any of them.

    Raises `CannotCheck` for several folders on a system where their code would run in this process.
    """
    if len(folders) > 1 and not can_fork():
        raise CannotCheck(f"expected one submission, got {len(folders)}: {NO_FORK}, so none is isolated")
    limits = Limits(cpu_s=settings.cpu_seconds)

    def check(folder: Path) -> SubmissionResult:
        return check_submission(
            folder, course, seed=settings.seed, name=settings.exercise, hidden=folders, limits=limits
        )

    with ThreadPoolExecutor(settings.jobs or os.cpu_count() or 1) as threads:
        try:
            return list(threads.map(check, folders))
        except BaseException:  # Ctrl-C: the threads would go on until the submissions' limits
            INTERRUPTED.set()
            raise
