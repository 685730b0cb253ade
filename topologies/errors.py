"""Errors of the topologies and the runner."""

from __future__ import annotations

from common.errors import HotlineError


class ConfigError(HotlineError):
    """A configuration value is wrong; the text names the value, its place and what would be right."""


class PreflightError(HotlineError):
    """Something that a run needs is missing, or something is in its way."""


class SwitchFailed(HotlineError):
    """The switch process did not start, or died."""


class AgentFailed(HotlineError):
    """A worker or PS agent died, answered an error, or did not answer in time."""


class AccountingError(HotlineError):
    """Updates were lost or values overflowed: the run's numbers cannot be trusted."""
