"""Limits on waits: by the clock, or by other measures of rooms that know what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class WaitLimit(Protocol):
    """A limit on a wait, which begins when the limit is made."""

    @property
    def look_s(self) -> float:
        """Time in s until the next look."""
        ...

    async def is_exceeded(self) -> bool:
        """Look, and return whether the wait has been too long."""
        ...

    def describe(self) -> str:
        """Return the limit, and what is known of that which is waited for: "within 5 s"."""
        ...

    def describe_state(self) -> str:
        """Return what is known of that which is waited for."""
        ...


BeginWait: TypeAlias = Callable[[float, str], WaitLimit]
"""Begins a wait with a limit in s for that which the text names."""


class WallClockLimit:
    """A limit by the event loop's clock, for processes of which no more is known than that none answers."""

    def __init__(self, limit_s: float, what: str = "") -> None:
        self._limit_s = limit_s
        self._deadline_s = asyncio.get_running_loop().time() + limit_s

    @property
    def look_s(self) -> float:
        return max(0.0, self._deadline_s - asyncio.get_running_loop().time())

    async def is_exceeded(self) -> bool:
        return not self.look_s

    def describe(self) -> str:
        return f"within {self._limit_s:g} s"

    def describe_state(self) -> str:
        return "no more is known of it"


async def wait_within(limit: WaitLimit, *futures: asyncio.Future[Any]) -> bool:  # of any results
    """Return whether all futures are done before the limit is exceeded; none of them is cancelled."""
    while True:
        _, pending = await asyncio.wait(futures, timeout=limit.look_s)
        if not pending:
            return True
        if await limit.is_exceeded():
            return False
