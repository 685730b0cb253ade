"""Fixtures of pytest with which students run an exercise's tests.

A folder's `conftest.py` imports all of them. The submission is the folder itself, with the published seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hotline_course.checker import Submission
from hotline_course.exercise import Exercise, open_exercise
from hotline_course.remote import SubmittedModule, SubmittedSwitch
from hotline_course.settings import PUBLISHED_SEED

__all__ = ["exercise", "make_switch", "module", "parameters", "submission", "switch"]


@pytest.fixture(scope="module")
def exercise(request: pytest.FixtureRequest) -> Exercise:
    return open_exercise(request.path.parent)


@pytest.fixture(scope="module")
def submission(exercise: Exercise) -> Iterator[Submission]:
    with Submission(exercise, exercise.folder) as opened:
        yield opened


@pytest.fixture
def parameters(exercise: Exercise) -> Any:  # each exercise has its own type
    return exercise.parameters(PUBLISHED_SEED)


@pytest.fixture
def switch(submission: Submission) -> SubmittedSwitch:
    return submission.switch()


@pytest.fixture
def make_switch(submission: Submission) -> Callable[[], SubmittedSwitch]:
    return submission.switch


@pytest.fixture
def module(submission: Submission) -> SubmittedModule:
    return submission.module()
