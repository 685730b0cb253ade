"""Wait for a child process with a time limit that does not count the time of suspensions."""

from __future__ import annotations

import os
import time

_POLL_S = 0.02


def status_of(child: int, limit_s: float) -> int | None:
    """Return a child's wait status, or None if it still runs after `limit_s`, suspensions not counted."""
    remaining_s, is_suspended = limit_s, False
    while remaining_s > 0:
        changed, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if changed and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            return status
        if changed:
            is_suspended = os.WIFSTOPPED(status)
        time.sleep(_POLL_S)
        remaining_s -= 0 if is_suspended else _POLL_S
    return None
