"""Errors of simulated runs."""

from __future__ import annotations

from foundation.errors import HotlineError


class SimulationError(HotlineError):
    """A simulated run that cannot go on; the text says at what time and why."""
