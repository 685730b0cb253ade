"""Errors of what-if questions and schedules."""

from __future__ import annotations

from foundation.errors import HotlineError


class DenseError(HotlineError):
    """A setting, model or script that cannot be used; the text names the value and what would be right."""
