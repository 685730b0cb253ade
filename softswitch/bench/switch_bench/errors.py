"""Exceptions of the bench."""

from __future__ import annotations

from softswitch.errors import SwitchError


class BenchError(SwitchError):
    """What keeps the bench from running, in one line."""
