"""Waiting for what must happen, however busy the machine: only a failure waits until the deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Return as soon as a condition holds; AssertionError when it does not come to hold."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited for {PATIENCE_S:g} s"
        time.sleep(0.001)
