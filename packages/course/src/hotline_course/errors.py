"""Errors of the checker."""

from __future__ import annotations

from foundation.errors import HotlineError, os_error_message


class CannotCheck(HotlineError):
    """A folder cannot be checked, which says nothing of the submission in it."""


class SubmissionError(AssertionError):
    """A submission's code was refused, raised, or exceeded a limit: a check that sees it fails."""


def message_of(error: HotlineError | OSError) -> str:
    """Return a message that names the file of an error of the operating system."""
    return os_error_message(error) if isinstance(error, OSError) else str(error)
