"""Errors of the checker."""

from __future__ import annotations

from foundation.errors import HotlineError, os_error_message

_MAX_CHARACTERS = 4000


class CannotCheck(HotlineError):
    """A folder cannot be checked, which says nothing of the submission in it."""


class SubmissionError(AssertionError):
    """A submission's code was refused, raised, or exceeded a limit: a check that sees it fails."""


def message_of(error: HotlineError | OSError) -> str:
    """Return a message that names the file of an error of the operating system."""
    return os_error_message(error) if isinstance(error, OSError) else str(error)


def describe(error: BaseException) -> str:
    """Return an error's message, with its type unless the error was made for users."""
    kind = type(error)
    text = str(error)
    is_for_users = kind.__module__.startswith(("softswitch.", "hotline_course."))
    return (text if is_for_users else f"{kind.__name__}: {text}")[:_MAX_CHARACTERS]
