"""Errors of the checker."""

from __future__ import annotations

from foundation.errors import HotlineError


class CannotCheck(HotlineError):
    """A folder cannot be checked, which says nothing of the submission in it."""


class SubmissionError(AssertionError):
    """A submission's code was refused, raised, or exceeded a limit: a check that sees it fails."""
