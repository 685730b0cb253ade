"""Exceptions of the bench."""

from __future__ import annotations

from foundation.errors import HotlineError


class BenchError(HotlineError):
    """What keeps the bench from running, in one line."""
