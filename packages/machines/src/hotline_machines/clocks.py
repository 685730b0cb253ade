"""How far a machine's clock is ahead of this machine's, by answers to short questions (Cristian, 1989)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

_QUESTIONS = 5  # the one with the shortest round trip counts


class ClockReading(NamedTuple):
    ahead_ns: int
    error_ns: int
    """Maximum error of `ahead_ns`: half of the round trip."""


async def read_clock(
    ask: Callable[[], Awaitable[int]], now_ns: Callable[[], int] = time.monotonic_ns
) -> ClockReading:
    readings = []
    for _ in range(_QUESTIONS):
        begin_ns = now_ns()
        answer_ns = await ask()
        end_ns = now_ns()
        half_ns = (end_ns - begin_ns) // 2
        readings.append(ClockReading(answer_ns - (begin_ns + half_ns), half_ns))
    return min(readings, key=lambda reading: reading.error_ns)
