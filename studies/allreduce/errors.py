"""Errors of the zoo."""

from __future__ import annotations

from foundation.errors import HotlineError


class ZooError(HotlineError):
    """Something cannot be compared."""
