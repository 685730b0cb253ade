"""Errors of logs and data files."""

from __future__ import annotations

from common.errors import HotlineError


class DataError(HotlineError):
    """A log, training set or trace that cannot be used; the text names the file and the line."""
