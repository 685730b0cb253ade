"""Errors of the topologies and the runner."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from foundation.errors import HotlineError

log = logging.getLogger(__name__)


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


class RunFailed(HotlineError):
    """A run failed, and what made that likely is known."""


@contextmanager
def secondary() -> Iterator[None]:
    """Tell an error behind another one, which it must not hide."""
    try:
        yield
    except (HotlineError, OSError) as error:
        log.warning("and then: %s", error)
