"""Waiting for what must happen, however busy the machine: only a failure waits until the deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0
_SHORTEST_TICK_S, _LONGEST_TICK_S = 0.001, 0.005


def wait_for(condition: Callable[[], bool]) -> None:
    """Return 1 ms or 1 % of the wait after a condition holds, at most; AssertionError if it never does."""
    begin = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - begin
        assert waited_s < PATIENCE_S, f"waited for {PATIENCE_S:g} s"
        # In a long wait, looking every millisecond takes CPU time from what is waited for.
        time.sleep(min(max(_SHORTEST_TICK_S, waited_s / 100), _LONGEST_TICK_S))
