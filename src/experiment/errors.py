from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from foundation.errors import HotlineError

log = logging.getLogger(__name__)


class ConfigError(HotlineError):
    """A configuration value is wrong; the message has the value, its place and the expected values."""


class PreflightError(HotlineError):
    """The machine lacks something that a run needs, or something conflicts with it."""


class SwitchFailed(HotlineError):
    """The switch process failed to start, or died."""


class AgentFailed(HotlineError):
    """A worker or PS agent died, answered an error, or did not answer in time."""


class AccountingError(HotlineError):
    """Updates were lost or values overflowed: the run's numbers cannot be trusted."""


class RunFailed(HotlineError):
    """A run failed for a known reason."""


@contextmanager
def log_cleanup_errors() -> Iterator[None]:
    """Log an error of cleaning up instead of raising it, so that it does not hide the first error."""
    try:
        yield
    except (HotlineError, OSError) as error:
        log.warning("while cleaning up: %s", error)
