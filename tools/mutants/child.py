"""Waiting for a child with a time limit that only running time counts against."""

from __future__ import annotations

import os
import time

_POLL_S = 0.02


def status_of(child: int, longest: float) -> int | None:
    """Return a child's wait status; None after `longest` s of polls, which do not count suspensions."""
    left, suspended = longest, False
    while left > 0:
        changed, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if changed and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            return status
        if changed:
            suspended = os.WIFSTOPPED(status)
        time.sleep(_POLL_S)
        left -= 0 if suspended else _POLL_S
    return None
