"""Exceptions of the bench."""

from __future__ import annotations

from softswitch.errors import SwitchError


class BenchError(SwitchError):
    """The reason why the bench cannot run, in one line."""
