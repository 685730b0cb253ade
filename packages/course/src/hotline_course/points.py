"""Points of a test, and the results of an exercise's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., None])
_ATTRIBUTE = "hotline_points"


def points(number: int) -> Callable[[F], F]:
    """Set the points of a test; a test without this decorator has one."""

    def give(function: F) -> F:
        setattr(function, _ATTRIBUTE, number)
        return function

    return give


def points_of(function: Callable[..., None]) -> int:
    return int(getattr(function, _ATTRIBUTE, 1))


class CheckResult(NamedTuple):
    """Result of one check."""

    name: str
    points: int
    reason: str
    """Why the points are lost; "" if they are not."""
    seconds: float

    @property
    def earned(self) -> int:
        return 0 if self.reason else self.points


class SubmissionResult(NamedTuple):
    """Results of one submission; without any, `problem` says why it could not be checked."""

    folder: str
    exercise: str
    checks: Sequence[CheckResult] = ()
    problem: str = ""
    not_isolated: str = ""
    todos: Sequence[str] = ()
    """Comments of the skeleton that are still in the submission's files, each with its place."""

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks)

    @property
    def earned(self) -> int:
        return sum(check.earned for check in self.checks)

    @property
    def status(self) -> int:
        """Exit status: 0 for all points, 1 if points are lost, 2 if it could not be checked."""
        return 2 if self.problem else int(self.earned < self.points)
