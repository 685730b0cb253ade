"""Errors of logs and data files."""

from __future__ import annotations

from foundation.errors import HotlineError


class DataError(HotlineError):
    """A log, training set or trace that cannot be used; the text names the file and the line."""


def reason_of(error: Exception) -> str:
    """Why a file could not be written, in a line; to NumPy a full disk is a short write."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = str(error).partition("\n")[0]
    return f"{line}: the disk may be full" if isinstance(error, OSError) else line
